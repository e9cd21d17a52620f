"""What each family of conventions says is read into the same fields."""

import json
from typing import Any

import pytest

from assay.domain.trace import Span
from support.otlp_bodies import STARTED_NS, otlp_span, pairs, read_attributes, read_span

ASKED = [{"role": "user", "parts": [{"type": "text", "content": "hei"}]}]
ANSWERED = [{"role": "assistant", "parts": [{"type": "text", "content": "moi"}], "finish_reason": "stop"}]


def event(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "attributes": pairs(attributes)}


def usage(span: Span) -> tuple[int | None, int | None, int | None]:
    return span.input_tokens, span.output_tokens, span.total_tokens


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"gen_ai.request.model": "m-1"}, "m-1"),
        ({"gen_ai.request.model": "m", "gen_ai.response.model": "m-1"}, "m-1"),
        ({"llm.model_name": "m-1"}, "m-1"),
        ({"embedding.model_name": "m-1"}, "m-1"),
        ({"ag.meta.response.model": "m-1"}, "m-1"),
        ({"ag.meta.request.model": "m-1"}, "m-1"),
        ({"gen_ai.request.model": ""}, None),
        ({"gen_ai.request.model": 5}, None),
    ],
)
def test_the_model(attributes: dict[str, Any], expected: str | None) -> None:
    span = read_attributes(attributes)
    assert span.model == expected
    assert span.type == ("llm" if expected else "span")


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.usage.input_tokens": 25, "gen_ai.usage.output_tokens": 7},
        {"gen_ai.usage.prompt_tokens": 25, "gen_ai.usage.completion_tokens": 7},
        {"gen_ai.usage.input_tokens": "25", "gen_ai.usage.output_tokens": 7.0},
        {"llm.token_count.prompt": 25, "llm.token_count.completion": 7, "llm.token_count.total": 32},
        {"ag.metrics.unit.tokens.prompt": 25, "ag.metrics.unit.tokens.completion": 7},
        {"ag.metrics.tokens.incremental.prompt": 25, "ag.metrics.tokens.incremental.completion": 7},
        {"ag.metrics.tokens.cumulative.prompt": 25, "ag.metrics.tokens.cumulative.completion": 7},
        {"ag.metrics.acc.tokens.prompt": 25, "ag.metrics.acc.tokens.completion": 7, "ag.metrics.acc.tokens.total": 32},
        {
            "gen_ai.usage.input_tokens": 25,
            "gen_ai.usage.prompt_tokens": 25,
            "gen_ai.usage.output_tokens": 7,
            "gen_ai.usage.completion_tokens": 7,
            "gen_ai.usage.details.text_prompt_tokens": 25,
        },
    ],
)
def test_token_counts_in_every_spelling_are_counted_once(attributes: dict[str, Any]) -> None:
    assert usage(read_attributes(attributes)) == (25, 7, 32)


@pytest.mark.parametrize("count", [-1, 2.5, "many", True, "NaN", "", "9" * 30])
def test_a_token_count_that_is_none_is_passed_over(count: Any) -> None:
    assert usage(read_attributes({"gen_ai.usage.input_tokens": count})) == (None, None, None)


def test_a_count_of_nothing_is_not_an_unknown_one() -> None:
    assert usage(read_attributes({"gen_ai.usage.input_tokens": 0})) == (0, None, 0)


@pytest.mark.parametrize(
    ("key", "field"),
    [
        ("gen_ai.usage.cache_read.input_tokens", "cache_read_tokens"),
        ("gen_ai.usage.cache_creation.input_tokens", "cache_write_tokens"),
        ("llm.token_count.prompt_details.cache_read", "cache_read_tokens"),
        ("llm.token_count.prompt_details.cache_write", "cache_write_tokens"),
    ],
)
def test_cached_tokens(key: str, field: str) -> None:
    assert getattr(read_attributes({key: 64}), field) == 64


@pytest.mark.parametrize(
    "key",
    [
        "gen_ai.usage.cost",
        "llm.cost.total",
        "ag.metrics.unit.costs.total",
        "ag.metrics.costs.incremental.total",
        "ag.metrics.costs.cumulative.total",
        "ag.metrics.acc.costs.total",
    ],
)
def test_the_cost(key: str) -> None:
    assert read_attributes({key: 0.25}).cost == 0.25
    assert read_attributes({key: "0.25"}).cost == 0.25
    assert read_attributes({key: -1.0}).cost is None


@pytest.mark.parametrize(
    ("attributes", "given", "answered"),
    [
        ({"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps(ANSWERED)}, "hei", "moi"),
        ({"gen_ai.input.messages": ASKED, "gen_ai.output.messages": ANSWERED}, "hei", "moi"),
        ({"gen_ai.prompt": "hei", "gen_ai.completion": "moi"}, "hei", "moi"),
        (
            {
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "hei",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "moi",
            },
            "hei",
            "moi",
        ),
        ({"input.value": "hei", "output.value": "moi"}, "hei", "moi"),
        ({"input.value": '{"q": "hei"}', "output.value": "[1]"}, {"q": "hei"}, [1]),
        ({"input.value": '{"q": 1}', "input.mime_type": "text/plain"}, '{"q": 1}', None),
        ({"input.value": "5", "input.mime_type": "application/json"}, 5, None),
        ({"input.value": "5"}, "5", None),
        ({"input.value": "{not json"}, "{not json", None),
        (
            {
                "llm.input_messages.0.message.role": "user",
                "llm.input_messages.0.message.content": "hei",
                "llm.output_messages.0.message.role": "assistant",
                "llm.output_messages.0.message.content": "moi",
            },
            "hei",
            "moi",
        ),
        ({"ag.data.inputs": {"city": "Turku"}, "ag.data.outputs": "moi"}, {"city": "Turku"}, "moi"),
        ({"ag.data.inputs": '@ag.type=json:{"city": "Turku"}'}, {"city": "Turku"}, None),
        ({"ag.data.outputs": "@ag.type=none:"}, None, None),
        ({"ag.data.outputs": '@ag.type=json:{"__default__": "moi"}'}, None, "moi"),
        ({"ag.data.inputs.city": "Turku", "ag.data.outputs.n": 3}, {"city": "Turku"}, {"n": 3}),
    ],
)
def test_what_went_in_and_what_came_out(attributes: dict[str, Any], given: Any, answered: Any) -> None:
    span = read_attributes(attributes)
    assert (span.input, span.output) == (given, answered)


def test_numbered_messages_are_in_the_order_of_their_numbers() -> None:
    attributes = {f"gen_ai.prompt.{number}.content": f"turn {number}" for number in (10, 2, 0, 11, 1, *range(3, 10))}
    messages = read_attributes(attributes).input
    assert isinstance(messages, list)
    assert messages == [{"content": f"turn {number}"} for number in range(12)]


def test_system_instructions_come_before_the_messages_of_a_model_call() -> None:
    span = read_attributes(
        {
            "gen_ai.request.model": "m-1",
            "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "be brief"}]),
            "gen_ai.input.messages": json.dumps(ASKED),
        }
    )
    assert span.input == [{"role": "system", "parts": [{"type": "text", "content": "be brief"}]}, *ASKED]


@pytest.mark.parametrize(
    "events",
    [
        [
            event("gen_ai.user.message", {"content": "hei"}),
            event("gen_ai.choice", {"index": 0, "message": '{"content": "moi"}'}),
        ],
        [
            event("gen_ai.content.prompt", {"gen_ai.prompt": "hei"}),
            event("gen_ai.content.completion", {"gen_ai.completion": "moi"}),
        ],
        [
            event(
                "gen_ai.client.inference.operation.details",
                {"gen_ai.input.messages": json.dumps(ASKED), "gen_ai.output.messages": json.dumps(ANSWERED)},
            )
        ],
    ],
)
def test_messages_that_came_as_events(events: list[dict[str, Any]]) -> None:
    span = read_attributes({"gen_ai.request.model": "m-1"}, events=events)
    assert (span.input, span.output) == ("hei", "moi")


@pytest.mark.parametrize(
    ("attributes", "span_type"),
    [
        ({"openinference.span.kind": "RETRIEVER"}, "retrieval"),
        ({"ag.type.node": "query"}, "retrieval"),
        ({"openinference.span.kind": "TOOL"}, "tool"),
        ({"gen_ai.operation.name": "execute_tool"}, "tool"),
        ({"openinference.span.kind": "CHAIN"}, "span"),
        ({"openinference.span.kind": "TOOL", "llm.model_name": "m-1"}, "llm"),
    ],
)
def test_the_type_follows_from_what_the_instrumentation_calls_the_span(
    attributes: dict[str, Any], span_type: str
) -> None:
    assert read_attributes(attributes).type == span_type


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "gen_ai.tool.call.arguments": '{"k": 1}',
            "gen_ai.tool.call.result": '{"v": 2}',
        },
        {
            "openinference.span.kind": "TOOL",
            "tool.name": "lookup",
            "input.value": '{"k": 1}',
            "output.value": '{"v": 2}',
        },
    ],
)
def test_a_tools_span_records_the_call_it_made(attributes: dict[str, Any]) -> None:
    span = read_attributes(attributes)
    assert span.tool_calls == [{"name": "lookup", "input": {"k": 1}, "output": {"v": 2}}]
    assert (span.input, span.output) == ({"k": 1}, {"v": 2})


@pytest.mark.parametrize(
    "attributes",
    [
        {
            "gen_ai.output.messages": json.dumps(
                [
                    {
                        "role": "assistant",
                        "parts": [{"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"k": 1}}],
                    }
                ]
            )
        },
        {
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "lookup",
            "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"k": 1}',
        },
    ],
)
def test_a_call_that_a_model_asks_for_is_no_call_made(attributes: dict[str, Any]) -> None:
    span = read_attributes({"gen_ai.request.model": "m-1", **attributes})
    assert span.tool_calls is None
    assert span.metadata == {"requested_tool_calls": [{"id": "c1", "name": "lookup", "arguments": {"k": 1}}]}


def test_documents_are_what_a_retrieval_found() -> None:
    span = read_attributes(
        {
            "openinference.span.kind": "RETRIEVER",
            "input.value": "ferry",
            "retrieval.documents.0.document.content": "noon",
            "retrieval.documents.1.document.content": "one",
        }
    )
    assert span.input == "ferry"
    assert span.output == [{"document": {"content": "noon"}}, {"document": {"content": "one"}}]


@pytest.mark.parametrize(
    "attributes", [{"session.id": "c-1"}, {"gen_ai.conversation.id": "c-1"}, {"ag.session.id": "c-1"}]
)
def test_the_session(attributes: dict[str, Any]) -> None:
    assert read_attributes(attributes).session_id == "c-1"


@pytest.mark.parametrize(
    "attributes", [{"metadata": '{"plan": "pro"}'}, {"metadata.plan": "pro"}, {"ag.meta.plan": "pro"}]
)
def test_metadata(attributes: dict[str, Any]) -> None:
    assert read_attributes(attributes).metadata == {"plan": "pro"}


def test_metadata_of_several_places_is_merged() -> None:
    assert read_attributes({"metadata": '{"a": 1}', "metadata.b": 2}).metadata == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("attributes", "resource", "parent", "agent"),
    [
        ({}, {"service.name": "desk"}, "", "desk"),
        ({}, {"service.name": "unknown_service:python"}, "", None),
        ({}, {}, "", None),
        ({"gen_ai.agent.name": "planner"}, {"service.name": "desk"}, "", "planner"),
        ({"gen_ai.agent.name": "planner"}, {"service.name": "desk"}, "00000000000000ff", "desk"),
        ({"ag.refs.application.slug": "faq"}, {"service.name": "desk"}, "00000000000000ff", "faq"),
    ],
)
def test_the_agent_is_the_application_else_the_roots_agent_else_the_service(
    attributes: dict[str, Any], resource: dict[str, Any], parent: str, agent: str | None
) -> None:
    assert read_span(otlp_span(attributes, parentSpanId=parent), resource=resource).agent == agent


@pytest.mark.parametrize(
    ("scope", "framework"),
    [
        ("openinference.instrumentation.langchain", "langchain"),
        ("opentelemetry.instrumentation.openai_v2", "openai"),
        ("@arizeai/openinference-instrumentation-openai", "openai"),
        ("pydantic-ai", "pydantic-ai"),
        ("ai@4.1", "ai-sdk"),
        ("my.app", None),
        ("", None),
    ],
)
def test_the_framework_is_known_by_its_scope(scope: str, framework: str | None) -> None:
    assert read_span(otlp_span(), scope=scope).framework == framework


EXCEPTION = event("exception", {"exception.type": "TimeoutError", "exception.message": "upstream slow"})


@pytest.mark.parametrize(
    ("status", "attributes", "events", "error"),
    [
        ({"code": 2, "message": "boom"}, {}, [EXCEPTION], "boom"),
        ({"code": 2}, {}, [EXCEPTION], "TimeoutError: upstream slow"),
        ({"code": 2}, {"error.type": "timeout"}, [], "timeout"),
        ({"code": 2}, {}, [], "error"),
        ({}, {}, [EXCEPTION], "TimeoutError: upstream slow"),
        ({"code": 1}, {}, [EXCEPTION], None),
        ({}, {}, [], None),
    ],
)
def test_the_error(
    status: dict[str, Any], attributes: dict[str, Any], events: list[dict[str, Any]], error: str | None
) -> None:
    assert read_attributes(attributes, status=status, events=events).error == error


@pytest.mark.parametrize("key", ["ag.metrics.duration.cumulative", "ag.metrics.duration.cumulative.total"])
def test_a_duration_in_milliseconds_stands_in_for_a_missing_end(key: str) -> None:
    span = read_attributes({key: 2500.0}, endTimeUnixNano=None)
    assert span.ended_at_ns == STARTED_NS + 2_500_000_000
    assert read_attributes({key: 2500.0}).latency_ms == 1500


def test_the_attributes_stay_as_they_were_sent_with_the_resource_beside_them() -> None:
    span = read_span(
        otlp_span({"input.value": '{"q": 1}', "mine": [1, {"a": None}]}), resource={"service.name": "desk"}
    )
    assert span.attributes == {
        "input.value": '{"q": 1}',
        "mine": [1, {"a": None}],
        "resource": {"service.name": "desk"},
    }


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.prompt": "x", "gen_ai.prompt.0.content": "y"},
        {"gen_ai.prompt.0": "x", "gen_ai.prompt.0.content": "y"},
        {"gen_ai.prompt.0.content": "y", "gen_ai.prompt.0": "x"},
        {"gen_ai.prompt.": "x"},
        {"llm.input_messages." + "a." * 500: "x"},
        {"gen_ai.input.messages": "[" * 5000},
        {"input.value": '{"a":' * 3000 + "1" + "}" * 3000},
        {"metadata": "[1"},
        {"ag.data.inputs": "@ag.type=json:{"},
        {"gen_ai.output.messages": [1, None, {"parts": [5, {"type": "tool_call"}], "tool_calls": [7]}]},
    ],
)
def test_attributes_that_make_no_sense_cost_nothing_else(attributes: dict[str, Any]) -> None:
    span = read_attributes({**attributes, "session.id": "c-1"})
    assert span.session_id == "c-1"
