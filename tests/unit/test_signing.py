import base64
import time

import pytest
from standardwebhooks import Webhook
from standardwebhooks.webhooks import WebhookVerificationError

from assay.errors import InvalidInputError
from assay.signing import demand_signing_secret, signature_headers

FIRST, SECOND, OTHER = ("whsec_" + base64.b64encode(letter * 32).decode() for letter in (b"a", b"b", b"c"))


def test_either_of_two_secrets_verifies_what_was_signed_with_both() -> None:
    body = '{"grüße": 1}'.encode()
    headers = dict(signature_headers([FIRST, SECOND], message_id="chk_1", timestamp_s=int(time.time()), body=body))
    assert headers["webhook-id"] == "chk_1"
    for secret in (FIRST, SECOND):
        assert Webhook(secret).verify(body, headers) == {"grüße": 1}
    with pytest.raises(WebhookVerificationError):
        Webhook(OTHER).verify(body, headers)
    with pytest.raises(WebhookVerificationError):
        Webhook(FIRST).verify(body + b" ", headers)


def test_the_signature_is_the_one_of_the_published_scheme() -> None:
    """The example of the Standard Webhooks reference implementations."""
    headers = dict(
        signature_headers(
            ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
            message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
            timestamp_s=1614265330,
            body=b'{"test": 2432232314}',
        )
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


@pytest.mark.parametrize("secret", [FIRST, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])
def test_a_secret_of_24_to_64_bytes_is_taken(secret: str) -> None:
    assert demand_signing_secret(secret, field="signingSecrets") == secret


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "hunter2hunter2", "whsec_aHVudGVyMg==", FIRST.removeprefix("whsec_"), FIRST + "!", "whsec_é"],
)
def test_anything_else_is_refused_without_being_repeated(secret: str) -> None:
    with pytest.raises(InvalidInputError, match="24 to 64 random bytes") as caught:
        demand_signing_secret(secret, field="signingSecrets")
    assert caught.value.field == "signingSecrets"
    assert len(secret) < 8 or secret not in str(caught.value)
