"""What an endpoint knows us by: as text, as shown, and taken out of what the endpoint says."""

import pytest

from assay.domain.credentials import (
    Credentials,
    SealedCredentials,
    credentials_of,
    credentials_text,
    print_of,
    redacted,
)
from assay.domain.url import masked, origin

ALL = Credentials(
    headers=(("X-Api-Key", "header-secret"), ("X-Tenant", "t1")),
    bearer_token="bearer-secret",
    signing_secrets=("whsec_one", "whsec_two"),
)


@pytest.mark.parametrize("credentials", [Credentials(), ALL], ids=["none", "all"])
def test_credentials_come_back_from_the_text_that_is_sealed(credentials: Credentials) -> None:
    assert credentials_of(credentials_text(credentials)) == credentials


def test_no_secret_stands_in_what_is_printed() -> None:
    sealed = SealedCredentials(
        origin="https://a.example", signing_prints=(print_of("whsec_one"),), sealed=b"sealed-text"
    )
    for text in (repr(ALL), str(ALL), repr(sealed)):
        for secret in ("header-secret", "bearer-secret", "whsec_one", "sealed-text"):
            assert secret not in text


def test_two_secrets_have_different_prints_that_tell_nothing_of_them() -> None:
    assert print_of("whsec_one") != print_of("whsec_two")
    assert len(print_of("whsec_one")) == 8


def test_what_was_sent_as_a_secret_is_taken_out_of_what_an_endpoint_says() -> None:
    said = b'{"you sent": "bearer-secret", "and": "header-secret!", "tenant": "t1"}'
    assert redacted(said, ALL) == b'{"you sent": "[redacted]", "and": "[redacted]!", "tenant": "t1"}'


def test_a_secret_that_holds_another_is_taken_out_whole() -> None:
    credentials = Credentials(headers=(("A", "secret-part"), ("B", "secret-part-and-more")))
    assert redacted(b"secret-part-and-more secret-part", credentials) == b"[redacted] [redacted]"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://a.example/score?token=x#part", "https://a.example/score?…"),
        ("https://user:pass@a.example/score", "https://a.example/score"),
        ("https://a.example/score", "https://a.example/score"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert masked(url) == shown


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("https://A.Example/score?x=1", "https://a.example"),
        ("https://a.example:8443?x=1", "https://a.example:8443"),
        ("http://a.example", "http://a.example"),
        ("https://u@a.example\\@b.example/", "https://b.example"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, where: str) -> None:
    assert origin(url) == where
