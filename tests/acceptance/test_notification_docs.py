"""What docs/notifications.md says of URLs and bodies is what apprise takes and what is sent."""

import json
import re
from pathlib import Path

import pytest

from assay.channels.apprise import AppriseMessenger
from assay.channels.webhook_body import webhook_body
from support.notifications import VAULT, a_notification, an_event

PAGE = (Path(__file__).parents[2] / "docs/notifications.md").read_text(encoding="utf-8")
URLS = re.findall(r"`([a-z]+://[^` ]+)`", PAGE)


def test_the_body_on_the_page_is_what_is_sent() -> None:
    event = an_event("evt_2f1c0f9a2b7d4e5c8a6b3d10", signal_id="sig_da925e18a8845ce5104cc055")
    notification = a_notification(event, notification_id="ntf_5f0b7d1c2e3a4b5c6d7e8f90")
    document = json.dumps(json.loads(webhook_body(notification)), indent=2)
    assert f"```text\n{document}\n```" in PAGE


@pytest.mark.parametrize("url", URLS)
async def test_apprise_takes_every_url_on_the_page(url: str) -> None:
    assert await AppriseMessenger(VAULT).shown(url, "default")


def test_the_page_has_a_url_for_each_service_it_promises() -> None:
    schemes = {url.partition("://")[0] for url in URLS}
    assert {"slack", "workflows", "discord", "mailtos", "pagerduty", "opsgenie", "jsons"} <= schemes
