"""What a request makes of an evaluator's credentials: new values sealed, and stored ones kept where it says so."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.api.schemas.credentials import HELD, SIGNING_HELD
from assay.api.schemas.evaluators import EvaluatorFields
from assay.domain.credentials import (
    Credentials,
    SealedCredentials,
    credentials_of,
    credentials_text,
    print_of,
    vault_place,
)
from assay.domain.evaluator import Evaluator
from assay.domain.url import origin
from assay.errors import InvalidInputError
from assay.signing import demand_signing_secret
from assay.vault import Vault

HEADERS, BEARER, SIGNING = "headers", "bearerToken", "signingSecrets"
NOTHING_HELD = SealedCredentials(origin="", sealed=b"")


def with_credentials(vault: Vault, evaluator: Evaluator, fields: EvaluatorFields) -> Evaluator:
    """Return an external evaluator with the credentials that were given laid over those it has.

    Credentials belong to one origin: whoever can change the URL could otherwise have them sent to themselves. Raises
    InvalidInputError for what is kept but was never stored, or stored for another origin, and SecretUnreadableError.
    """
    given = fields.model_dump(include={"headers", "bearer_token", "signing_secrets"}, exclude_unset=True)
    held = evaluator.credentials or NOTHING_HELD
    where = origin(evaluator.revision.url or "")
    shown_headers, shown_bearer, shown_signing = _as_shown(held)
    headers: Mapping[str, str] = given.get("headers", shown_headers)
    bearer: str | None = given.get("bearer_token", shown_bearer)
    signing: Sequence[str] = given.get("signing_secrets", shown_signing)
    if where == held.origin and (headers, bearer, list(signing)) == _as_shown(held):
        return evaluator
    _demand_held(held, headers, bearer, signing)
    if bearer is not None and any(name.lower() == "authorization" for name in headers):
        raise InvalidInputError("bearerToken and the header Authorization were given; give one.", field=BEARER)
    kept = _kept(headers, bearer, signing)
    if kept and where != held.origin:
        raise InvalidInputError(
            f"The url leads to {where}, but {' and '.join(kept)} were given for {held.origin}, and go nowhere else: "
            "give them again, or null to drop them.",
            field=kept[0],
        )
    if not headers and bearer is None and not signing:
        return replace(evaluator, credentials=None)
    stored = Credentials()
    if kept:
        stored = credentials_of(vault.open(held.sealed, place=vault_place(evaluator.project_id, held.origin)))
    credentials = _resolved(stored, headers, bearer, signing)
    return replace(evaluator, credentials=_sealed(vault, evaluator.project_id, where, credentials))


def _as_shown(held: SealedCredentials) -> tuple[dict[str, str], str | None, list[str]]:
    """Return what GET shows, which keeps everything."""
    return (
        dict.fromkeys(held.header_names, HELD),
        HELD if held.has_bearer_token else None,
        [SIGNING_HELD + mark for mark in held.signing_prints],
    )


def _demand_held(
    held: SealedCredentials, headers: Mapping[str, str], bearer: str | None, signing: Sequence[str]
) -> None:
    """Refuse to keep what is not there."""
    known = {name.lower() for name in held.header_names}
    missing = [name for name, value in headers.items() if value == HELD and name.lower() not in known]
    if missing:
        raise InvalidInputError(f"No value of the header {missing[0]} is stored; give it.", field=HEADERS)
    if bearer == HELD and not held.has_bearer_token:
        raise InvalidInputError("No bearer token is stored; give it.", field=BEARER)
    for secret in signing:
        if secret.startswith(SIGNING_HELD) and secret.removeprefix(SIGNING_HELD) not in held.signing_prints:
            raise InvalidInputError(f"No signing secret {secret[:40]} is stored; give it.", field=SIGNING)
        if not secret.startswith(SIGNING_HELD):
            demand_signing_secret(secret, field=SIGNING)


def _kept(headers: Mapping[str, str], bearer: str | None, signing: Sequence[str]) -> list[str]:
    """Return the fields of which something stored goes on."""
    return [
        name
        for name, is_kept in (
            (HEADERS, HELD in headers.values()),
            (BEARER, bearer == HELD),
            (SIGNING, any(secret.startswith(SIGNING_HELD) for secret in signing)),
        )
        if is_kept
    ]


def _resolved(
    stored: Credentials, headers: Mapping[str, str], bearer: str | None, signing: Sequence[str]
) -> Credentials:
    """Put the stored values where they are kept."""
    values = {name.lower(): value for name, value in stored.headers}
    secrets = {SIGNING_HELD + print_of(secret): secret for secret in stored.signing_secrets}
    return Credentials(
        headers=tuple((name, values[name.lower()] if value == HELD else value) for name, value in headers.items()),
        bearer_token=stored.bearer_token if bearer == HELD else bearer,
        signing_secrets=tuple(dict.fromkeys(secrets.get(secret, secret) for secret in signing)),
    )


def _sealed(vault: Vault, project_id: str, where: str, credentials: Credentials) -> SealedCredentials:
    return SealedCredentials(
        origin=where,
        header_names=tuple(name for name, _ in credentials.headers),
        has_bearer_token=credentials.bearer_token is not None,
        signing_prints=tuple(print_of(secret) for secret in credentials.signing_secrets),
        sealed=vault.seal(credentials_text(credentials), place=vault_place(project_id, where)),
    )
