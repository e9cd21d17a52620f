import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from assay.errors import ConfigurationError, SecretUnreadableError
from assay.vault import Vault, keys_in_file

OLD, NEW = "o" * 32, "n" * 32
PLACE = "evaluator evl_1"


def test_a_secret_is_sealed_anew_every_time_and_opens_to_what_it_was() -> None:
    vault = Vault([NEW])
    first, second = (vault.seal("Bearer grüße", place=PLACE) for _ in range(2))
    assert first != second
    assert b"Bearer" not in first
    assert [vault.open(sealed, place=PLACE) for sealed in (first, second)] == ["Bearer grüße"] * 2


def test_a_secret_sealed_with_an_older_key_still_opens_and_is_known_to_be_old() -> None:
    sealed = Vault([OLD]).seal("token", place=PLACE)
    vault = Vault([NEW, OLD])
    assert vault.open(sealed, place=PLACE) == "token"
    assert not vault.is_current(sealed)
    assert vault.is_current(vault.seal("token", place=PLACE))


def test_a_key_named_twice_is_one_key() -> None:
    vault = Vault([NEW, OLD, NEW])
    assert vault.is_current(vault.seal("token", place=PLACE))
    assert vault.open(Vault([NEW]).seal("token", place=PLACE), place=PLACE) == "token"


def test_another_key_opens_nothing_and_says_what_is_missing() -> None:
    sealed = Vault([OLD]).seal("token", place=PLACE)
    with pytest.raises(SecretUnreadableError, match="a key that this server does not have"):
        Vault([NEW]).open(sealed, place=PLACE)


def test_a_secret_copied_to_another_place_does_not_open() -> None:
    vault = Vault([NEW])
    with pytest.raises(SecretUnreadableError, match="copied from elsewhere"):
        vault.open(vault.seal("token", place="evaluator evl_2"), place=PLACE)


@pytest.mark.parametrize("size", [0, 1, 5, 9, 21, 30])
def test_a_damaged_secret_does_not_open(size: int) -> None:
    vault = Vault([NEW])
    with pytest.raises(SecretUnreadableError):
        vault.open(vault.seal("token", place=PLACE)[:size], place=PLACE)


def test_a_changed_byte_anywhere_does_not_open() -> None:
    vault = Vault([NEW])
    sealed = vault.seal("token", place=PLACE)
    for at in range(len(sealed)):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(SecretUnreadableError):
            vault.open(bytes(changed), place=PLACE)


def test_a_short_key_is_refused_without_being_repeated() -> None:
    with pytest.raises(ConfigurationError, match="11 characters") as caught:
        Vault(["hunter2-key"])
    assert "hunter2" not in str(caught.value)


def test_the_key_file_is_made_once_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "new" / "secret.key"
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(keys_in_file, [path] * 8))
    assert answers == [answers[0]] * 8
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["secret.key"]


def test_a_key_file_may_hold_older_keys_below_the_current_one(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text(f"{NEW}\n{OLD}\n")
    path.chmod(0o600)
    assert keys_in_file(path) == [NEW, OLD]


def test_a_key_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.write_text(NEW)
    path.chmod(0o640)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        keys_in_file(path)


def test_an_empty_key_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret.key"
    path.touch(0o600)
    with pytest.raises(ConfigurationError, match="holds no key"):
        keys_in_file(path)


def test_a_key_file_that_cannot_be_made_names_the_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="ASSAY_SECRET_KEY"):
        keys_in_file(tmp_path / "file" / "secret.key")
