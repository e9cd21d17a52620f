"""The URL of an endpoint: where it leads, and how messages show it."""

import httpcore2
import httpx2

from assay.domain.url import masked as masked_whole
from assay.guarded_http.failure import CallError

LONGEST_SHOWN = 200


def masked(url: str) -> str:
    """Return the URL as a message shows it: masked, and no longer than a message has room for."""
    return shortened(masked_whole(url))


def shortened(text: str) -> str:
    """Return the text cut to what a message has room for; endpoints decide how long it was."""
    return text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + "…"


def target(url: str) -> httpcore2.URL:
    """Return what to connect to and ask for; raise CallError for a URL that nothing can be posted to."""
    try:
        parsed = httpx2.URL(url)
    except (httpx2.InvalidURL, ValueError) as error:
        raise CallError("connection", f"{masked(url)} is not a URL.") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise CallError("connection", f"{masked(url)} is not an http or https URL with a host.")
    if parsed.userinfo:
        raise CallError(
            "blocked_address", f"{masked(url)} has credentials before its host; put a token in the query instead."
        )
    return httpcore2.URL(scheme=parsed.raw_scheme, host=parsed.raw_host, port=parsed.port, target=parsed.raw_path)
