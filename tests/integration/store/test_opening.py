from pathlib import Path

import pytest

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
