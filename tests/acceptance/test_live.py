"""From the real OpenTelemetry SDK to a recorded check and a signal, through the real server process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from support.otlp_json import as_otlp_json
from support.server import ADMIN_KEY, Server, wait_for

EVALUATE = """
def evaluate(inputs, outputs, trace):
    print("looking at", outputs)
    unit = next(iter(trace["spans"].values()))["attributes"]["ag"]["metrics"]["unit"]
    return {"success": "sorry" not in outputs, "tokens": unit["tokens"]["total"], "reason": f"answered {outputs}"}
"""
HANDLER = """
async def handler(input, output, expected, metadata, trace):
    llm = await trace.get_spans(span_type=["llm"])
    return {"score": 1.0 if llm[0].model == "m-1" else 0.0, "metadata": {"spans": len(await trace.get_spans())}}
"""


class JsonExporter(SpanExporter):
    """The SDK's own encoding of spans, sent as OTLP/JSON."""

    def __init__(self, server: Server, path: str) -> None:
        self._server = server
        self._path = path

    def export(self, spans: "list[ReadableSpan]") -> SpanExportResult:  # pyright: ignore[reportIncompatibleMethodOverride]
        answer = self._server.client.post(
            self._path, content=as_otlp_json(encode_spans(spans)), headers={"content-type": "application/json"}
        )
        return SpanExportResult.SUCCESS if answer.is_success else SpanExportResult.FAILURE


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("live")) as running:
        yield running


def send(exporter: SpanExporter, agent: str, answer: str) -> str:
    """Trace one request; return its trace id."""
    provider = TracerProvider(resource=Resource.create({"service.name": agent}), shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("app")
    with tracer.start_as_current_span("answer") as root:
        root.set_attribute("input.value", "where is my parcel?")
        root.set_attribute("output.value", answer)
        with tracer.start_as_current_span("chat m-1") as call:
            call.set_attribute("gen_ai.request.model", "m-1")
            call.set_attribute("gen_ai.usage.input_tokens", 25)
            call.set_attribute("gen_ai.usage.output_tokens", 7)
    return format(root.get_span_context().trace_id, "032x")


@pytest.mark.parametrize(
    ("wire", "path", "compression"),
    [
        ("protobuf", "/v1/traces", Compression.NoCompression),
        ("protobuf", "/api/v1/otel/v1/traces", Compression.Gzip),
        ("json", "/v1/traces", None),
    ],
)
def test_a_trace_sent_by_the_sdk_becomes_checks_and_a_signal(
    server: Server, wire: str, path: str, compression: Compression | None
) -> None:
    exporter = (
        JsonExporter(server, path)
        if compression is None
        else OTLPSpanExporter(f"{server.url}{path}", headers={"x-api-key": ADMIN_KEY}, compression=compression)
    )
    agent = f"desk-{wire}-{compression}"
    evaluate_id = server.create_evaluator(name="polite", script=EVALUATE, severity="high")
    handler_id = server.create_evaluator(name="model", script=HANDLER)

    good = send(exporter, agent, "it is on its way")
    bad = send(exporter, agent, "sorry, no idea")

    def checks_of_both() -> bool:
        return len(server.events(evaluate_id)) == len(server.events(handler_id)) == 2

    wait_for(checks_of_both, "both traces to be checked by both evaluators")
    by_trace = {event["traceId"]: event for event in server.events(evaluate_id)}
    assert by_trace[good]["metrics"] == {"success": True, "tokens": 32, "reason": "answered it is on its way"}
    assert by_trace[bad]["metrics"]["success"] is False
    assert by_trace[bad]["logs"] == "looking at sorry, no idea\n"
    assert by_trace[bad]["runner"].startswith("sandbox")
    assert [event["metadata"] for event in server.events(handler_id)] == [{"spans": 2}, {"spans": 2}]

    (signal,) = server.get("/api/v1/signals", evaluatorId=evaluate_id)["signals"]
    assert (signal["severity"], signal["status"], signal["count"]) == ("high", "open", 1)
    assert signal["evidence"][0]["traceId"] == bad
    assert signal["evidence"][0]["reason"] == "answered sorry, no idea"
    assert server.get("/api/v1/signals", evaluatorId=handler_id)["signals"] == []
    assert agent in [known["name"] for known in server.get("/api/v1/agents")["agents"]]

    whole = server.get(f"/api/v1/traces/{bad}")
    assert [span["type"] for span in whole["spans"]] == ["span", "llm"]
    assert {check["evaluatorId"] for check in whole["checks"]} >= {evaluate_id, handler_id}


def test_an_errored_check_names_the_authors_line_and_raises_nothing(server: Server, tmp_path: Path) -> None:
    evaluator_id = server.create_evaluator(
        name="broken", script="def evaluate(inputs, outputs, trace):\n    return outputs['missing']\n"
    )
    exporter = OTLPSpanExporter(f"{server.url}/v1/traces", headers={"x-api-key": ADMIN_KEY})
    send(exporter, "desk-broken", "hello")
    (event,) = wait_for(lambda: server.events(evaluator_id), "the check")
    assert event["status"] == "errored"
    assert "TypeError" in event["error"]["message"]
    assert event["error"]["line"] == 2
    assert server.get("/api/v1/signals", evaluatorId=evaluator_id)["signals"] == []
