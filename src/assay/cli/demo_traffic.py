"""The demo's application: a made-up service desk, traced by the real OpenTelemetry SDK."""

import itertools
import json
import threading
import time
from importlib import resources
from typing import Any

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

AGENT = "service-desk"
TRACES_PER_S = 3.0
MILLISECOND_NS = 1_000_000


def scenarios() -> list[dict[str, Any]]:
    """Return the bundled conversations."""
    return json.loads(resources.files("assay.cli.samples").joinpath("desk.json").read_text(encoding="utf-8"))


class Traffic:
    """Sends the bundled conversations round and round, a few a second, until stopped."""

    def __init__(self, url: str, key: str) -> None:
        self.sent = 0
        self._stopping = threading.Event()
        self._provider = TracerProvider(resource=Resource.create({"service.name": AGENT}))
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces", headers={"x-api-key": key})
        self._provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=300))
        self._tracer = self._provider.get_tracer("assay.demo")
        self._thread = threading.Thread(target=self._run, name="demo-traffic", daemon=True)

    def start(self) -> None:
        """Begin sending."""
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, and flush what was not sent yet."""
        self._stopping.set()
        self._thread.join(timeout=5)
        self._provider.shutdown()

    def _run(self) -> None:
        for number, scenario in enumerate(itertools.cycle(scenarios())):
            self.send(scenario, session=f"session-{number // 3}")
            if self._stopping.wait(1 / TRACES_PER_S):
                return

    def send(self, scenario: dict[str, Any], session: str) -> None:
        """Trace one conversation: a root, a policy look-up, a tool call and, unless it failed, a model call."""
        clock = time.time_ns() - (scenario["llm_ms"] + scenario["tool_ms"] + 60) * MILLISECOND_NS
        root = self._tracer.start_span("answer_customer", start_time=clock)
        context = set_span_in_context(root)
        root.set_attribute("session.id", session)
        root.set_attribute("input.value", scenario["question"])
        if not scenario.get("without_metadata"):
            root.set_attribute("metadata", json.dumps({"channel": "chat", "plan": scenario["plan"]}))

        look_up = self._tracer.start_span("search_policies", context, start_time=clock)
        look_up.set_attribute("openinference.span.kind", "RETRIEVER")
        look_up.set_attribute("input.value", scenario["question"])
        look_up.set_attribute("output.value", scenario["policy"])
        clock += 40 * MILLISECOND_NS
        look_up.end(clock)

        tool = self._tracer.start_span(f"execute_tool {scenario['tool']['name']}", context, start_time=clock)
        tool.set_attribute("gen_ai.operation.name", "execute_tool")
        tool.set_attribute("gen_ai.tool.name", scenario["tool"]["name"])
        tool.set_attribute("gen_ai.tool.call.arguments", json.dumps(scenario["tool"]["arguments"]))
        tool.set_attribute("gen_ai.tool.call.result", json.dumps(scenario["tool"]["result"]))
        clock += scenario["tool_ms"] * MILLISECOND_NS
        if "error" in scenario:
            tool.set_status(Status(StatusCode.ERROR, scenario["error"]))
            root.set_status(Status(StatusCode.ERROR, scenario["error"]))
        tool.end(clock)

        if scenario["model"]:
            call = self._tracer.start_span(f"chat {scenario['model']}", context, start_time=clock)
            call.set_attribute("gen_ai.operation.name", "chat")
            call.set_attribute("gen_ai.request.model", scenario["model"])
            call.set_attribute("gen_ai.usage.input_tokens", scenario["tokens"][0])
            call.set_attribute("gen_ai.usage.output_tokens", scenario["tokens"][1])
            call.set_attribute("gen_ai.input.messages", _messages("user", scenario["question"]))
            call.set_attribute("gen_ai.output.messages", _messages("assistant", scenario["answer"]))
            clock += scenario["llm_ms"] * MILLISECOND_NS
            call.end(clock)
            root.set_attribute("output.value", scenario["answer"])
        root.end(clock + 20 * MILLISECOND_NS)
        self.sent += 1


def _messages(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])
