"""What an endpoint is to know us by, as sent and as shown: the values are taken and never given back."""

import re
from collections import Counter
from typing import Annotated, Any, cast

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from assay.domain.credentials import SealedCredentials

HELD = "…"
SIGNING_HELD = "whsec_…"
MOST_HEADERS = 20
LONGEST_NAME = 100
LONGEST_VALUE = 4096
MOST_BYTES = 16 * 1024
MOST_SIGNING_SECRETS = 2
NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
VALUE = re.compile(r"[!-~](?:[ !-~]*[!-~])?")
OURS = frozenset({"accept", "accept-encoding", "content-type", "idempotency-key", "user-agent"})
OF_THE_CONNECTION = frozenset(
    {"connection", "content-encoding", "content-length", "expect", "host", "http2-settings", "keep-alive", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
OUR_PREFIXES = ("assay-", "proxy-", "webhook-")


def _refused(message: str) -> PydanticCustomError:
    """Return an error that tells nothing of the value."""
    return PydanticCustomError("secret", "{message}", {"message": message})


def _demand_value(value: object, what: str) -> str:
    if not isinstance(value, str) or (value != HELD and not VALUE.fullmatch(value)):
        raise _refused(f"{what} must be text of visible ASCII characters, with spaces only between them")
    if len(value) > LONGEST_VALUE:
        raise _refused(f"{what} has {len(value)} characters; at most {LONGEST_VALUE} are allowed")
    return value


def _headers(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _refused("must be an object of header names and values")
    given = cast("dict[str, Any]", value)
    if len(given) > MOST_HEADERS:
        raise _refused(f"{len(given)} headers were given; at most {MOST_HEADERS} are allowed")
    for name, text in given.items():
        _demand_name(name)
        _demand_value(text, f"the value of {name}")
    twice = [name for name, count in Counter(name.lower() for name in given).items() if count > 1]
    if twice:
        raise _refused(f"the header {twice[0]} is given twice, in different spellings")
    if sum(len(name) + len(text) for name, text in given.items()) > MOST_BYTES:
        raise _refused(f"all headers together have more than {MOST_BYTES} characters, which is the limit")
    return given


def _demand_name(name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise _refused(
            f"a header's name has 1 to {LONGEST_NAME} letters, digits, dashes and the like; found {name[:60]!r}"
        )
    lower = name.lower()
    if lower in OURS | OF_THE_CONNECTION or lower.startswith(OUR_PREFIXES):
        raise _refused(f"the header {name} is set by Assay itself, or belongs to the connection")


def _bearer_token(value: object) -> str | None:
    if value is None:
        return None
    text = _demand_value(value, "the token")
    if " " in text:
        raise _refused("the token holds a space; give it without the word Bearer")
    return text


def _signing_secrets(value: object) -> list[str]:
    if value is None:
        return []
    given = cast("list[Any]", value) if isinstance(value, list) else []
    if not isinstance(value, list) or not all(isinstance(secret, str) for secret in given):
        raise _refused("must be a list of texts that begin with whsec_")
    if len(given) > MOST_SIGNING_SECRETS:
        raise _refused(f"{len(given)} secrets were given; at most {MOST_SIGNING_SECRETS} are active at a time")
    if len(set(given)) < len(given):
        raise _refused("the same secret is given twice")
    return given


Headers = Annotated[
    dict[str, str] | None,
    BeforeValidator(_headers),
    Field(repr=False, description=f"Sent to the endpoint; values are never shown, and {HELD} keeps the stored one."),
]
BearerToken = Annotated[
    str | None,
    BeforeValidator(_bearer_token),
    Field(repr=False, description=f"Sent as `Authorization: Bearer`; never shown, and {HELD} keeps the stored one."),
]
SigningSecrets = Annotated[
    list[str] | None,
    BeforeValidator(_signing_secrets),
    Field(repr=False, description="Each signs, as Standard Webhooks says; never shown, and what is shown keeps it."),
]


def credentials_shown(credentials: SealedCredentials | None) -> dict[str, Any]:
    """Return the fields of an answer that tell what is set, and nothing of what it is."""
    if credentials is None:
        return {}
    return {
        "headers": dict.fromkeys(credentials.header_names, HELD) or None,
        "bearer_token": HELD if credentials.has_bearer_token else None,
        "signing_secrets": [SIGNING_HELD + print_ for print_ in credentials.signing_prints] or None,
    }
