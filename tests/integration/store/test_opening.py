from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from assay.errors import ConfigurationError
from assay.store.opening import open_store


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://u:secret@host/db", "sqlite://", "sqlite:///:memory:", "postgresql://u:secret@host"]
)
async def test_a_url_that_names_no_store_is_refused_with_what_is_allowed(url: str) -> None:
    with pytest.raises(ConfigurationError, match="sqlite:///path") as caught:
        await open_store(url)
    assert "secret" not in str(caught.value)


async def test_the_folder_of_the_file_is_made(tmp_path: Path) -> None:
    store, queue = await open_store(f"sqlite:///{tmp_path / 'a' / 'b c' / 'assay.db'}")
    await queue.close()
    await store.close()
    assert (tmp_path / "a" / "b c" / "assay.db").exists()


async def test_a_database_out_of_reach_is_refused_with_the_cause_and_without_the_password(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="cannot be opened"):
        await open_store(f"sqlite:///{tmp_path / 'file' / 'assay.db'}")
    with pytest.raises(ConfigurationError, match=r"cannot be opened: .*refused") as caught:
        await open_store("postgresql://someone:secret@localhost:1/assay")
    assert "secret" not in str(caught.value)


async def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "assay.db").write_text("not a database " * 100)
    with pytest.raises(ConfigurationError, match="not a database"):
        await open_store(f"sqlite:///{tmp_path / 'assay.db'}")


async def test_a_database_of_a_newer_assay_is_left_alone(database_url: str) -> None:
    store, queue = await open_store(database_url)
    await queue.close()
    await store.close()
    engine = create_engine(make_url(database_url.replace("postgresql:", "postgresql+psycopg:")))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    with pytest.raises(ConfigurationError, match="newer Assay"):
        await open_store(database_url)
