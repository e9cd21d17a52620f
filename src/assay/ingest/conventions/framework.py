"""Which framework made a span, by the name of its instrumentation scope."""

LIBRARY_PREFIXES = (
    "opentelemetry.instrumentation.",
    "openinference.instrumentation.",
    "@opentelemetry/instrumentation-",
    "@arizeai/openinference-instrumentation-",
    "@traceloop/instrumentation-",
)
SCOPES = {
    "agenta.sdk": "agenta",
    "ai": "ai-sdk",
    "langsmith": "langchain",
    "litellm": "litellm",
    "pydantic-ai": "pydantic-ai",
    "strands-agents": "strands-agents",
    "traceloop.sdk": "traceloop",
}


def framework_of(scope: str) -> str | None:
    """Return the framework that an instrumentation scope names; None for an application's own tracer."""
    for prefix in LIBRARY_PREFIXES:
        if scope.startswith(prefix):
            name = scope[len(prefix) :].partition(".")[0].rstrip("0123456789")
            return name.removesuffix("_v") or None
    return SCOPES.get(scope.partition("@")[0])
