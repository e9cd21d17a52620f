"""Stands for orjson where it is not installed: as much of it as the worker uses, in the standard library."""

import json
from typing import Any


def loads(raw: Any) -> Any:
    """Decode JSON from bytes or a view of them."""
    return json.loads(bytes(raw))


def dumps(value: Any) -> bytes:
    """Encode as compact UTF-8."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
