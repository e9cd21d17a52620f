"""Scores how quickly the customer got an answer; skips what was never answered by a model."""

BUDGET_MS = 2500


async def handler(input, output, expected, metadata, trace):
    calls = await trace.get_spans(span_type="llm")
    if not calls:
        return None
    root = (await trace.get_spans())[0]
    slowest = max(calls, key=lambda span: span.latency_ms)
    return {
        "score": max(0.0, min(1.0, 1.5 - root.latency_ms / (2 * BUDGET_MS))),
        "metadata": {"slowest_model": slowest.model, "slowest_ms": slowest.latency_ms, "plan": metadata["plan"]},
    }
