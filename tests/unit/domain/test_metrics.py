"""Nested values become flat, named metrics."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.domain.check import CheckError
from assay.domain.json_value import JsonObject
from assay.domain.metrics import flatten


@pytest.mark.parametrize(
    ("values", "metrics"),
    [
        ({}, {}),
        ({"a": 1, "b": True, "c": "x", "d": None}, {"a": 1, "b": True, "c": "x", "d": None}),
        ({"a": {"b": {"c": 1}, "d": 2}}, {"a.b.c": 1, "a.d": 2}),
        ({"a": {}}, {"a": {}}),
        ({"a": [{"b": 1}, 2]}, {"a": [{"b": 1}, 2]}),
    ],
)
def test_nested_keys_are_joined_with_dots(values: JsonObject, metrics: JsonObject) -> None:
    flat = flatten(values)
    assert flat == metrics
    assert list(flat) == list(metrics)  # pyright: ignore[reportUnknownArgumentType, reportArgumentType]


def nested(levels: int, value: Any) -> Any:
    for _ in range(levels):
        value = {"k": value}
    return value


def listed(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


REFUSED: list[tuple[JsonObject, str, str]] = [
    ({"a": {"b": 1}, "a.b": 2}, "metric-name-collision", '"a.b"'),
    ({"": 1}, "empty-metric-name", "empty name"),
    ({"a": {" ": 1}}, "empty-metric-name", 'inside "a"'),
    ({"a": float("nan")}, "non-finite", '"a" is nan'),
    ({"a": [{"b": float("inf")}]}, "non-finite", '"a" is inf'),
    (nested(70, 1), "too-deep", "64 levels"),
    (nested(5000, 1), "too-deep", "64 levels"),
    ({"a": listed(70)}, "too-deep", "64 levels"),
    ({str(number): number for number in range(1001)}, "too-many-metrics", "1000"),
    ({"a": {"b": {str(number): {} for number in range(1001)}}}, "too-many-metrics", "1000"),
    ({"a": {"b" * 199: 1}}, "metric-name-too-long", "has 201 characters with its dots; at most 200"),
    ({"a" * 200_000: {"k": 1}}, "metric-name-too-long", "at most 200"),
    ({"a" * 190: {str(number): number for number in range(990)}}, "metric-name-too-long", "65536 characters in all"),
]


@pytest.mark.parametrize(("values", "kind", "told"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_stored_as_it_is_is_refused(values: JsonObject, kind: str, told: str) -> None:
    error = flatten(values)
    assert isinstance(error, CheckError)
    assert error.kind == kind
    assert told in error.message


names = st.text("abc", min_size=1, max_size=2)
objects = st.recursive(
    st.dictionaries(names, st.integers() | st.booleans() | st.text(max_size=3) | st.none(), max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(objects)
@settings(max_examples=50, deadline=None)
def test_no_value_is_lost_and_every_one_keeps_its_type(values: Any) -> None:
    metrics = flatten(values)
    assert isinstance(metrics, dict)
    for name, metric in metrics.items():
        inner = values
        for step in name.split("."):
            inner = inner[step]
        assert inner is metric or inner == metric == {}


def test_a_name_of_two_hundred_characters_is_fine() -> None:
    assert flatten({"a": {"b" * 198: 1}}) == {"a." + "b" * 198: 1}


def test_what_is_said_of_a_name_stays_short() -> None:
    for values in ({"a" * 100_000: 1}, {" " * 100_000: 1}, {"a": {"b" * 100_000: {"c": 1}}}):
        error = flatten(values)  # pyright: ignore[reportArgumentType]
        assert isinstance(error, CheckError)
        assert len(error.message) < 300


def test_a_thousand_metrics_are_fine() -> None:
    assert len(flatten({str(number): number for number in range(1000)})) == 1000  # pyright: ignore[reportArgumentType]
