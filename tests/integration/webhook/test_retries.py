"""What is tried again, when, how often, and how the endpoint can tell."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

import pytest
import pytest_asyncio

from assay.domain.outcome import Call, Limits, Outcome, Raised, Returned, Unavailable
from assay.guarded_http.address_guard import AddressGuard
from assay.runners.webhook import runner as runner_module
from assay.runners.webhook.runner import WebhookRunner
from support.endpoint import LOOPBACK, Behaviour, Endpoint, Request, answering, external, in_turn, sending
from support.notifications import VAULT

GONE = sending(b"", closing=True)


@pytest_asyncio.fixture
async def runner() -> AsyncIterator[WebhookRunner]:
    started = WebhookRunner(AddressGuard(LOOPBACK), VAULT)
    yield started
    await started.close()


async def delivered(
    runner: WebhookRunner, endpoint: Endpoint, key: str | None = "chk_1", evaluator_id: str = "evl_1"
) -> Outcome:
    call = Call(arguments=(b"{}",), key=key)
    (outcome,) = await runner.execute(external(endpoint.url, evaluator_id=evaluator_id), [call], Limits())
    return outcome


def set_clock(monkeypatch: pytest.MonkeyPatch, now: float) -> None:
    """Stop the runner's clock, and no other, at this time."""
    monkeypatch.setattr(runner_module, "time", SimpleNamespace(monotonic=lambda: now))


def keys_of(endpoint: Endpoint) -> list[str]:
    return [request.headers["idempotency-key"] for request in endpoint.requests]


@pytest.mark.parametrize(
    "failure",
    [
        *[pytest.param(answering(status=status), id=str(status)) for status in (429, 502, 503, 504)],
        pytest.param(GONE, id="hung up"),
        pytest.param(sending(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", closing=True), id="hung up in the body"),
    ],
)
async def test_a_failure_that_may_pass_is_tried_again_under_the_same_key(
    failure: Behaviour, runner: WebhookRunner
) -> None:
    async with Endpoint(in_turn(failure, failure, answering())) as endpoint:
        outcome = await delivered(runner, endpoint)
    assert isinstance(outcome, Returned), outcome
    assert keys_of(endpoint) == ["chk_1"] * 3


@pytest.mark.parametrize(
    "failure",
    [
        *[pytest.param(answering(status=status), id=str(status)) for status in (302, 400, 401, 404, 500, 501)],
        pytest.param(answering(b"no"), id="no json"),
        pytest.param(answering(b" " * 2_000_000), id="too large"),
    ],
)
async def test_any_other_failure_is_final(failure: Behaviour, runner: WebhookRunner) -> None:
    async with Endpoint(in_turn(failure, answering())) as endpoint:
        outcome = await delivered(runner, endpoint)
    assert isinstance(outcome, Raised)
    assert "tried" not in outcome.message
    assert len(endpoint.requests) == 1


async def test_a_timeout_is_final(runner: WebhookRunner) -> None:
    async def hang(_: Request, __: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async with Endpoint(hang) as endpoint:
        call = Call(arguments=(b"{}",), key="chk_1")
        (outcome,) = await runner.execute(external(endpoint.url), [call], Limits(wall_s=0.3))
    assert isinstance(outcome, Raised)
    assert (outcome.kind, len(endpoint.requests)) == ("timeout", 1)


async def test_there_are_at_most_three_attempts(runner: WebhookRunner) -> None:
    async with Endpoint(answering(status=503)) as endpoint:
        outcome = await delivered(runner, endpoint)
    assert isinstance(outcome, Raised)
    assert outcome.kind == "http_status"
    assert outcome.message.endswith("answered 503; only 2xx counts as an answer. It was tried 3 times.")
    assert len(endpoint.requests) == 3


async def test_calls_that_nobody_delivers_again_have_keys_of_their_own(runner: WebhookRunner) -> None:
    async with Endpoint(in_turn(answering(status=503), answering())) as endpoint:
        assert isinstance(await delivered(runner, endpoint, key=None), Returned)
        assert isinstance(await delivered(runner, endpoint, key=None), Returned)
    first, again, other = keys_of(endpoint)
    assert first == again != other


@pytest.mark.parametrize("how", ["seconds", "date"])
async def test_retry_after_is_waited_for_within_the_budget(how: str, runner: WebhookRunner) -> None:
    text = "1" if how == "seconds" else format_datetime(datetime.now(UTC) + timedelta(seconds=3), usegmt=True)
    came: list[float] = []

    async def note(request: Request, writer: asyncio.StreamWriter) -> None:
        came.append(time.time())
        status = 429 if len(came) == 1 else 200
        await answering(status=status, retry_after=text)(request, writer)

    async with Endpoint(note) as endpoint:
        assert isinstance(await delivered(runner, endpoint), Returned)
    assert came[1] - came[0] >= 0.95


async def test_a_longer_wait_is_left_to_the_queue_and_the_endpoint_alone_until_then(
    runner: WebhookRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Endpoint(answering(status=429, retry_after="30")) as endpoint:
        first = await delivered(runner, endpoint)
        assert isinstance(first, Unavailable)
        assert first.after_s == 30
        assert "answered 429" in first.cause
        for key in ("chk_2", "chk_1", "chk_1", "chk_1"):
            held = await delivered(runner, endpoint, key)
            assert isinstance(held, Unavailable)
            assert 20 < held.after_s <= 30
        assert len(endpoint.requests) == 1
        nobody_comes_again = await delivered(runner, endpoint, key=None)
        assert isinstance(nobody_comes_again, Raised)
        assert nobody_comes_again.kind == "http_status"
        assert "was left alone after it failed; the last failure was: " in nobody_comes_again.message
        assert len(endpoint.requests) == 1
        set_clock(monkeypatch, time.monotonic() + 31)
        assert isinstance(await delivered(runner, endpoint), Unavailable)
        assert len(endpoint.requests) == 2


async def test_a_check_waits_an_hour_for_an_endpoint_that_is_left_alone_without_using_up_its_attempts(
    runner: WebhookRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Endpoint(answering(status=503, retry_after="200")) as endpoint:
        set_clock(monkeypatch, 1000)
        assert isinstance(await delivered(runner, endpoint, "chk_1"), Unavailable)
        for now in (1010, 1100, 1190):
            set_clock(monkeypatch, now)
            assert isinstance(await delivered(runner, endpoint, "chk_2"), Unavailable)
        for now in (4400, 4605):
            set_clock(monkeypatch, now)
            assert isinstance(await delivered(runner, endpoint, f"chk at {now}"), Unavailable)
        assert len(endpoint.requests) == 3
        set_clock(monkeypatch, 4610)
        assert isinstance(await delivered(runner, endpoint, "chk_2"), Unavailable)
        set_clock(monkeypatch, 4611)
        last = await delivered(runner, endpoint, "chk_2")
        assert isinstance(last, Raised)
        assert "was left alone after it failed; the last failure was: " in last.message
        assert last.message.endswith(" The check waited for 3601 s.")
        assert last.kind == "http_status"
        assert len(endpoint.requests) == 3
        set_clock(monkeypatch, 4900)
        assert isinstance(await delivered(runner, endpoint, "chk at 4605"), Unavailable)
    assert len(endpoint.requests) == 4


async def test_a_check_that_was_held_back_for_long_still_has_its_attempts(
    runner: WebhookRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Endpoint(in_turn(answering(status=503, retry_after="200"), answering())) as endpoint:
        set_clock(monkeypatch, 1000)
        await delivered(runner, endpoint, "chk_1")
        for now in (1001, 1050, 1100, 1150, 1190):
            set_clock(monkeypatch, now)
            assert isinstance(await delivered(runner, endpoint, "chk_2"), Unavailable)
        set_clock(monkeypatch, 1201)
        assert isinstance(await delivered(runner, endpoint, "chk_2"), Returned)


async def test_an_endpoint_that_wants_to_be_left_alone_for_too_long_is_told_at_once(runner: WebhookRunner) -> None:
    async with Endpoint(answering(status=503, retry_after="86400")) as endpoint:
        outcome = await delivered(runner, endpoint)
    assert isinstance(outcome, Raised)
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize("text", ["soon", "-5", "1.5", "", "Thu, 01 Jan 1970 00:00:00 GMT", "٣"])
async def test_a_retry_after_that_says_nothing_holds_nobody(text: str, runner: WebhookRunner) -> None:
    raw = f"HTTP/1.1 503 No\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n".encode()
    async with Endpoint(in_turn(sending(raw), answering())) as endpoint:
        assert isinstance(await delivered(runner, endpoint), Returned)


async def test_an_endpoint_that_fails_again_and_again_is_left_alone_until_a_probe_is_answered(
    runner: WebhookRunner,
) -> None:
    async with Endpoint(in_turn(*[GONE] * 5, answering())) as endpoint:
        for _ in range(3):
            assert isinstance(await delivered(runner, endpoint, key=None), Raised)
        assert len(endpoint.requests) == 5
        assert isinstance(await delivered(runner, endpoint, key=None, evaluator_id=""), Returned)
        assert isinstance(await delivered(runner, endpoint, key=None), Returned)
    assert len(endpoint.requests) == 7


async def test_a_draft_is_tried_once(runner: WebhookRunner) -> None:
    async with Endpoint(answering(status=503)) as endpoint:
        outcome = await delivered(runner, endpoint, evaluator_id="")
    assert isinstance(outcome, Raised)
    assert len(endpoint.requests) == 1


async def test_the_version_of_what_is_sent_stands_in_a_header_too(runner: WebhookRunner) -> None:
    async with Endpoint(answering()) as endpoint:
        await delivered(runner, endpoint)
    assert endpoint.requests[0].headers["assay-schema-version"] == "2"
