"""The OpenTelemetry conventions for generative AI: as they are now, and as instrumentations sent them before."""

from assay.ingest.conventions.family import Family, MessageEvent, Prefix
from assay.ingest.conventions.readers import content

GENAI = Family(
    name="genai",
    keys={
        "input_messages": ("gen_ai.input.messages", "gen_ai.prompt"),
        "output_messages": ("gen_ai.output.messages", "gen_ai.completion"),
        "system_instructions": ("gen_ai.system_instructions",),
        "model": ("gen_ai.response.model", "gen_ai.request.model"),
        "provider": ("gen_ai.provider.name", "gen_ai.system"),
        "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
        "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
        "total_tokens": ("gen_ai.usage.total_tokens", "llm.usage.total_tokens"),
        "cache_read_tokens": (
            "gen_ai.usage.cache_read.input_tokens",
            "gen_ai.usage.cache_read_input_tokens",
            "gen_ai.usage.details.cache_read_tokens",
        ),
        "cache_write_tokens": (
            "gen_ai.usage.cache_creation.input_tokens",
            "gen_ai.usage.cache_creation_input_tokens",
            "gen_ai.usage.details.cache_write_tokens",
        ),
        "cost": ("gen_ai.usage.cost",),
        "kind": ("gen_ai.operation.name",),
        "tool_name": ("gen_ai.tool.name",),
        "tool_input": ("gen_ai.tool.call.arguments",),
        "tool_output": ("gen_ai.tool.call.result",),
        "session_id": ("gen_ai.conversation.id",),
        "agent": ("gen_ai.agent.name",),
        "input": ("gen_ai.retrieval.query.text",),
        "documents": ("gen_ai.retrieval.documents",),
        "error_type": ("error.type",),
    },
    prefixes=(
        Prefix(prefix="gen_ai.prompt.", field="input_messages", read=content),
        Prefix(prefix="gen_ai.completion.", field="output_messages", read=content),
    ),
    message_events=(
        MessageEvent(name="gen_ai.system.message", field="input_messages", role="system"),
        MessageEvent(name="gen_ai.user.message", field="input_messages", role="user"),
        MessageEvent(name="gen_ai.assistant.message", field="input_messages", role="assistant"),
        MessageEvent(name="gen_ai.tool.message", field="input_messages", role="tool"),
        MessageEvent(name="gen_ai.choice", field="output_messages", role="assistant"),
    ),
    attribute_events=(
        "gen_ai.content.prompt",
        "gen_ai.content.completion",
        "gen_ai.client.inference.operation.details",
    ),
    kinds={
        "execute_tool": "tool",
        "chat": "llm",
        "text_completion": "llm",
        "generate_content": "llm",
        "embeddings": "embedding",
        "invoke_agent": "agent",
        "create_agent": "agent",
        "invoke_workflow": "chain",
    },
)
