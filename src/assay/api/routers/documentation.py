"""The interactive documentation at /docs, from files of ours alone."""

from functools import cache
from importlib import resources

from fastapi import APIRouter, Response

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {"content-security-policy": POLICY, "referrer-policy": "no-referrer", "cache-control": "no-cache"}
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Assay API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="docs"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
START = """SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#docs",
  deepLinking: true,
  validatorUrl: null,
});
"""

router = APIRouter(include_in_schema=False)


@cache
def _vendored(name: str) -> bytes:
    return resources.files("assay.api").joinpath("vendor", name).read_bytes()


@router.get("/docs")
async def docs() -> Response:
    """Return the page."""
    return Response(PAGE, media_type="text/html; charset=utf-8", headers=HEADERS)


@router.get("/docs/start.js")
async def start() -> Response:
    """Return the script that shows our OpenAPI document; the page's policy forbids it inline."""
    return Response(START, media_type="text/javascript; charset=utf-8", headers=HEADERS)


@router.get("/docs/swagger-ui-bundle.js")
async def script() -> Response:
    """Return Swagger UI."""
    return Response(_vendored("swagger-ui-bundle.js"), media_type="text/javascript; charset=utf-8", headers=HEADERS)


@router.get("/docs/swagger-ui.css")
async def style() -> Response:
    """Return Swagger UI's style."""
    return Response(_vendored("swagger-ui.css"), media_type="text/css; charset=utf-8", headers=HEADERS)
