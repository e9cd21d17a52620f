"""Times as people write them."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.ingest.moments import read_moment

AT_NS = 1_781_000_000_000_000_000


@pytest.mark.parametrize(
    "written",
    [
        "2026-06-09T10:13:20Z",
        "2026-06-09T10:13:20.000Z",
        " 2026-06-09T12:13:20+02:00 ",
        "2026-06-09 10:13:20+00:00",
        "2026-06-09T10:13:20.000000000+00:00",
        1_781_000_000,
        1_781_000_000.0,
        1_781_000_000_000,
        1_781_000_000_000_000,
        1_781_000_000_000_000_000,
        "1781000000",
        "1781000000000000000",
    ],
)
def test_iso_text_and_numbers_of_any_unit_are_the_same_moment(written: Any) -> None:
    assert read_moment(written) == AT_NS


@pytest.mark.parametrize(
    ("written", "beyond_ns"),
    [
        ("2026-06-09T10:13:20.123456789Z", 123_456_789),
        ("2026-06-09T10:13:20.5Z", 500_000_000),
        ("2026-06-09T10:13:20.1234567891Z", 123_456_789),
        (1_781_000_000.25, 250_000_000),
        (1_781_000_000_250, 250_000_000),
        (1_781_000_000_250.5, 250_500_000),
        (1_781_000_000_000_000_001, 1),
    ],
)
def test_fractions_are_kept_to_the_nanosecond(written: Any, beyond_ns: int) -> None:
    assert read_moment(written) == AT_NS + beyond_ns


@pytest.mark.parametrize(
    "written",
    [
        "2026-06-09T10:13:20",
        "2026-06-09",
        "20260609",
        "1970-01-01T00:00:00Z",
        "now",
        "",
        0,
        -1,
        12,
        1e300,
        2**80,
        True,
        None,
        [],
    ],
)
def test_what_is_no_time_after_1970_or_has_no_zone_is_refused(written: Any) -> None:
    assert read_moment(written) is None


@given(st.datetimes(datetime(1971, 1, 2), datetime(2286, 1, 1)))
@settings(max_examples=50, deadline=None)
def test_every_unit_of_a_moment_is_told_from_the_others(moment: datetime) -> None:
    whole_s = int(moment.replace(tzinfo=UTC, microsecond=0).timestamp())
    read = {read_moment(whole_s * per_s) for per_s in (1, 10**3, 10**6, 10**9)}
    assert read == ({whole_s * 10**9} if whole_s * 10**9 < 2**63 else {None})
