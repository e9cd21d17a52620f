"""Ids."""

from assay.domain.identity import derived_id, new_id


def test_the_same_parts_give_the_same_id_and_other_parts_another() -> None:
    assert derived_id("chk", "r", "t", 1) == derived_id("chk", "r", "t", 1) == "chk_252e1ed5e22f6f420adda4e9"
    different = {
        derived_id("chk", *parts) for parts in (("ab", "c"), ("a", "bc"), ("abc",), ("ab", "c", ""), ("c", "ab"))
    }
    assert len(different) == 5


def test_new_ids_sort_by_their_time() -> None:
    ids = [new_id("chk", millisecond * 1_000_000) for millisecond in range(1_780_000_000_000, 1_780_000_000_050)]
    assert ids == sorted(ids)
    assert new_id("chk", 1) != new_id("chk", 1)
