"""OpenInference attributes, as Phoenix and its instrumentations send them."""

from assay.ingest.conventions.family import Family, Prefix
from assay.ingest.conventions.readers import content

OPENINFERENCE = Family(
    name="openinference",
    keys={
        "input": ("input.value", "tool.parameters"),
        "input_type": ("input.mime_type",),
        "output": ("output.value",),
        "output_type": ("output.mime_type",),
        "model": ("llm.model_name", "embedding.model_name", "reranker.model_name"),
        "provider": ("llm.provider", "llm.system"),
        "input_tokens": ("llm.token_count.prompt",),
        "output_tokens": ("llm.token_count.completion",),
        "total_tokens": ("llm.token_count.total",),
        "cache_read_tokens": ("llm.token_count.prompt_details.cache_read",),
        "cache_write_tokens": ("llm.token_count.prompt_details.cache_write",),
        "cost": ("llm.cost.total",),
        "kind": ("openinference.span.kind",),
        "tool_name": ("tool.name",),
        "session_id": ("session.id",),
        "agent": ("agent.name",),
        "metadata": ("metadata",),
        "documents": ("retrieval.documents", "reranker.output_documents"),
    },
    prefixes=(
        Prefix(prefix="llm.input_messages.", field="input_messages", read=content),
        Prefix(prefix="llm.output_messages.", field="output_messages", read=content),
        Prefix(prefix="retrieval.documents.", field="documents", read=content),
        Prefix(prefix="reranker.output_documents.", field="documents", read=content),
        Prefix(prefix="metadata.", field="metadata", read=content),
    ),
    kinds={"retriever": "retrieval"},
)
