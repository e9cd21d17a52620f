"""The OpenAPI document: what FastAPI sees of the routes, with our errors in place of its own."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from assay.api.problem import MEDIA_TYPE

METHODS = ("get", "post", "put", "patch", "delete")
THEIRS = ("HTTPValidationError", "ValidationError")
TEXT = {"type": "string"}
PROBLEM: dict[str, Any] = {
    "type": "object",
    "description": "Problem details after RFC 9457; `code` is stable, `detail` is for people.",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": TEXT,
        "title": TEXT,
        "status": {"type": "integer"},
        "detail": TEXT,
        "code": TEXT,
        "field": {"type": "string", "description": "The field that is at fault."},
        "line": {"type": "integer", "description": "The line of the script that is at fault."},
        "errors": {"type": "array", "items": {"type": "object", "additionalProperties": TEXT}},
        "requestId": TEXT,
    },
}
ANY_PROBLEM = {
    "description": "A problem",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def install_openapi(app: FastAPI) -> None:
    """Make the application answer /openapi.json with our document, made once when it is first asked for."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document


def _document(app: FastAPI) -> dict[str, Any]:
    found = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    schemas: dict[str, Any] = found.setdefault("components", {}).setdefault("schemas", {})
    for name in THEIRS:
        schemas.pop(name, None)
    schemas["Problem"] = PROBLEM
    for path in found["paths"].values():
        for method in METHODS:
            if method in path:
                responses = path[method]["responses"]
                responses.pop("422", None)
                responses.setdefault("default", ANY_PROBLEM)
    return found
