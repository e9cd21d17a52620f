"""URLs as they may be shown, and where they lead: their query, where tokens live, is nobody else's business."""

MASK = "?…"


def masked(url: str) -> str:
    """Return the URL as it may be shown: without its query, fragment and credentials, which can hold secrets."""
    address, query, _ = url.partition("#")[0].partition("?")
    scheme, separator, rest = address.partition("//") if "//" in address else ("", "", address)
    authority, slash, path = rest.partition("/")
    host = authority.rpartition("@")[2]
    return f"{scheme}{separator}{host}{slash}{path}" + (MASK if query else "")


def origin(url: str) -> str:
    """Return the scheme, host and port as they are written, in lower case: who is talked to, and how."""
    scheme, separator, rest = masked(url).removesuffix(MASK).partition("//")
    return f"{scheme}{separator}{rest.partition('/')[0]}".lower()
