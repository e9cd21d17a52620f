"""What the pure floors and the sandbox worker may import, as allow-lists: a deny-list always lags behind."""

import grimp
import pytest

DATA = {"__future__", "collections", "dataclasses", "datetime", "enum", "typing", "types"}
CALCULATION = {"functools", "hashlib", "itertools", "json", "math", "re", "uuid", "zoneinfo"}
FLOORS = {
    "assay.domain": DATA | CALCULATION,
    "assay.interfaces": DATA | {"json", "math", "msgspec"},
    "assay.ingest": DATA | {"google", "msgspec", "opentelemetry", "zlib", "json", "math", "functools", "uuid"},
    "assay.ports": DATA | {"contextlib"},
}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("assay", include_external_packages=True, cache_dir=None)


@pytest.mark.parametrize("floor", FLOORS)
def test_a_pure_floor_imports_nothing_beyond_its_list(graph: grimp.ImportGraph, floor: str) -> None:
    breaches = [
        f"{module} imports {imported}"
        for module in {floor} | graph.find_descendants(floor)
        for imported in graph.find_modules_directly_imported_by(module)
        if not imported.startswith("assay") and imported.split(".")[0] not in FLOORS[floor]
    ]
    assert not breaches


def test_no_two_packages_import_each_other(graph: grimp.ImportGraph) -> None:
    packages = sorted(graph.find_children("assay"))
    edges = {
        (importer, imported)
        for importer in packages
        for imported in packages
        if importer != imported and graph.direct_import_exists(importer=importer, imported=imported, as_packages=True)
    }
    assert not [pair for pair in edges if (pair[1], pair[0]) in edges]
