"""The URL of an endpoint: where it leads, and how it may be shown."""

import httpcore2
import httpx2

from assay.guarded_http.failure import CallError

LONGEST_SHOWN = 200


def masked(url: str) -> str:
    """Return the URL as it may be shown: without its query, fragment and credentials, which can hold secrets."""
    address, query, _ = url.partition("#")[0].partition("?")
    scheme, separator, rest = address.partition("//") if "//" in address else ("", "", address)
    authority, slash, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    return shortened(f"{scheme}{separator}{host}{slash}{path}") + ("?…" if query else "")


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
