"""OTLP messages as the JSON that OTLP prescribes: protobuf's own mapping, but ids in hex."""

import base64
import json
from typing import Any

from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message


def as_otlp_json(message: Message) -> bytes:
    document: dict[str, Any] = MessageToDict(message)
    for resource in document.get("resourceSpans", []):
        for scope in resource.get("scopeSpans", []):
            for span in scope.get("spans", []):
                for field in ("traceId", "spanId", "parentSpanId"):
                    if field in span:
                        span[field] = base64.b64decode(span[field]).hex()
    return json.dumps(document).encode()
