from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from support.api import Api, running_api


@pytest.fixture
async def api(tmp_path: Path) -> AsyncGenerator[Api]:
    async with running_api(f"sqlite:///{tmp_path / 'assay.db'}") as running:
        yield running
