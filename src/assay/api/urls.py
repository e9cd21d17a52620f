"""The URLs of external evaluators: which can be saved."""

from urllib.parse import urlsplit

from assay.errors import InvalidInputError


def demand_url(url: str) -> str:
    """Return the URL; raise InvalidInputError for one that nothing can be posted to.

    Whether the address may be called is decided when it is, since a name can lead elsewhere tomorrow.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidInputError(f"The url cannot be read: {error}.", field="url") from error
    if parts.scheme not in ("http", "https"):
        found = repr(parts.scheme) if parts.scheme else "missing"
        raise InvalidInputError(f"The url's scheme is {found}; allowed are http and https.", field="url")
    if not parts.hostname or port == 0 or any(character.isspace() or character < " " for character in url):
        raise InvalidInputError("The url needs a host, a port from 1 to 65535 if any, and no spaces.", field="url")
    if "@" in parts.netloc:
        raise InvalidInputError(
            "The url has credentials before its host; put a token into the query instead.", field="url"
        )
    return url
