"""Packages in the sandbox: they work, only those who import them pay for them, and only they can be imported."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assay.domain.outcome import Exceeded, Limits, Raised, Returned, Unavailable
from assay.errors import SandboxUnavailableError
from assay.runners.sandbox.launch import Rung
from assay.runners.sandbox.packages import Package, installed_packages
from assay.runners.sandbox.runner import SandboxRunner
from support.sandbox import LADDER, descendants, is_running, run, value_of
from support.server import wait_for

# The first evaluation on a rung waits for the packages to load.
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

ROOMY = Limits(wall_s=20)
OFFERED = "the packages offered here are numpy, regex"
UNSEEN = "numpy is offered to code that names it in an import statement"


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=LADDER, ids=lambda rung: rung.name)
async def runner(request: pytest.FixtureRequest) -> AsyncIterator[SandboxRunner]:
    try:
        started = await SandboxRunner.start_on(request.param, workers=1, packages=installed_packages(None))
    except SandboxUnavailableError as error:
        pytest.skip(str(error))
    try:
        yield started
    finally:
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def lean() -> AsyncIterator[SandboxRunner]:
    """A runner that offers numpy and regex, and has started nothing for them yet."""
    packages = installed_packages(["numpy", "regex"])
    started = await SandboxRunner.start_on(_best(), workers=1, packages=packages)
    try:
        yield started
    finally:
        await started.close()


def _best() -> Rung:
    return LADDER[0]


WORK: dict[str, tuple[str, Any]] = {
    "numpy": (
        "import numpy as np\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    a, b = np.array([1.0, 2.0, 2.0]), np.array([2.0, 4.0, 4.0])\n"
        "    return {'cosine': a @ b / (np.linalg.norm(a) * np.linalg.norm(b)), 'top': np.argmax(a)}",
        {"cosine": 1.0, "top": 1},
    ),
    "numpy.random": (
        "from numpy.random import default_rng\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    matrix = default_rng(7).random((300, 300))\n"
        "    import numpy\n"
        "    return numpy.allclose(numpy.linalg.inv(matrix) @ matrix, numpy.eye(300))",
        True,
    ),
    "pandas": (
        "import io\nimport pandas as pd\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    frame = pd.read_csv(io.StringIO('tool,ms\\na,1\\nb,4\\na,3'))\n"
        "    return frame.groupby('tool')['ms'].mean().to_dict()",
        {"a": 2.0, "b": 4.0},
    ),
    "pandas, late": (
        "def evaluate(inputs, outputs, trace):\n"
        "    import pandas\n"
        "    hours = pandas.date_range('2024-02-28', periods=72, freq='h').to_series()\n"
        "    return [str(day.date()) for day in hours.resample('D').first()]",
        ["2024-02-28", "2024-02-29", "2024-03-01"],
    ),
    "jsonschema": (
        "import json\nfrom jsonschema import Draft202012Validator\n"
        "SCHEMA = {'type': 'object', 'required': ['id'], 'properties': {'id': {'type': 'integer', 'minimum': 1}}}\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    problems = Draft202012Validator(SCHEMA).iter_errors(json.loads('{\"id\": 0}'))\n"
        "    return {'problems': [problem.message for problem in problems]}",
        {"problems": ["0 is less than the minimum of 1"]},
    ),
    "rapidfuzz": (
        "from rapidfuzz import fuzz, process\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    best, score, at = process.extractOne('an anser', ['a question', outputs], scorer=fuzz.ratio)\n"
        "    return [best, score > 90, at]",
        ["an answer", True, 1],
    ),
    "regex": (
        "import regex\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    found = regex.findall(r'\\p{Lu}\\p{Ll}+', 'Ärger und Über')\n"
        "    return [*found, bool(regex.search('(?e)(?:answr){e<=1}', outputs))]",
        ["Ärger", "Über", True],
    ),
    "dateutil": (
        "from dateutil import parser, relativedelta\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    moment = parser.parse('31 January 2024, 5pm') + relativedelta.relativedelta(months=1)\n"
        "    return moment.isoformat()",
        "2024-02-29T17:00:00",
    ),
    "several at once": (
        "import numpy, pandas, jsonschema, rapidfuzz, regex, dateutil.parser\n"
        "def evaluate(inputs, outputs, trace):\n"
        "    return int(numpy.sum(pandas.Series([rapidfuzz.fuzz.ratio('a', 'a'), len(regex.findall('a', 'aa'))])))",
        102,
    ),
}  # fmt: skip


@pytest.mark.parametrize("package", WORK)
async def test_a_package_does_real_work(runner: SandboxRunner, package: str) -> None:
    source, value = WORK[package]
    found = await value_of(runner, source, limits=ROOMY)
    assert found == (value if package != "numpy" else {"cosine": pytest.approx(1.0), "top": 1})


@pytest.mark.parametrize(
    "line",
    [
        "import numpy",
        "import numpy.linalg as numpy",
        "from numpy import linalg as numpy",
        "from importlib import import_module; numpy = import_module('numpy')",
        "numpy = __import__('numpy')",
        "space = {}; exec('import numpy', space); numpy = space['numpy']",
        "import sys; numpy = sys.modules['numpy']",
    ],
)
async def test_a_package_is_there_however_it_is_imported(runner: SandboxRunner, line: str) -> None:
    inside = f"def evaluate(inputs, outputs, trace):\n    {line}\n    return numpy.__name__.partition('.')[0]"
    assert await value_of(runner, inside, limits=ROOMY) == "numpy"


async def test_what_a_package_loads_late_is_there(runner: SandboxRunner) -> None:
    source = """
from numpy.polynomial import Polynomial
from rapidfuzz.distance import Levenshtein
import numpy.testing, dateutil.easter, jsonschema.validators
def evaluate(inputs, outputs, trace):
    numpy.testing.assert_allclose(Polynomial([1, 2])(3), 7)
    return [Levenshtein.distance("kitten", "sitting"), str(dateutil.easter.easter(2024))]
"""
    assert await value_of(runner, source, limits=ROOMY) == [3, "2024-03-31"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("numpy.float64(0.25)", 0.25),
        ("numpy.float32(0.25)", 0.25),
        ("numpy.int64(3)", 3),
        ("numpy.uint8(3)", 3),
        ("numpy.bool_(True)", True),
        ("numpy.str_('text')", "text"),
        ("{'score': numpy.mean([0, 1]), 'rows': [numpy.int32(1)]}", {"score": 0.5, "rows": [1]}),
    ],
)
async def test_a_numpy_scalar_becomes_its_plain_value(runner: SandboxRunner, expression: str, value: Any) -> None:
    source = f"import numpy\ndef evaluate(inputs, outputs, trace):\n    return {expression}"
    found = await value_of(runner, source, limits=ROOMY)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("numpy.array([1, 2])", "ndarray"),
        ("numpy.array([1.0])", "ndarray"),
        ("{'a': {'b': numpy.zeros(2)}}", "'a.b' is a ndarray"),
        ("{'a': pandas.Series([1])}", "'a' is a Series"),
        ("pandas.DataFrame({'a': [1]})", "DataFrame"),
        ("{'a': pandas.NaT}", "NaT"),
        ("{'a': pandas.NA}", "NA"),
        ("{'a': numpy.float64('nan')}", "nan"),
        ("{numpy.int64(1): 2}", "int64"),
        ("numpy.complex128(1)", "complex"),
    ],
)
async def test_what_json_cannot_carry_of_a_package_is_named(runner: SandboxRunner, expression: str, said: str) -> None:
    source = f"import numpy, pandas\ndef evaluate(inputs, outputs, trace):\n    return {expression}"
    [outcome] = await run(runner, source, None, limits=ROOMY)
    assert isinstance(outcome, Raised)
    assert outcome.type == "UnfitValue"
    assert said in outcome.message


async def test_time_zones_are_those_of_the_package(runner: SandboxRunner) -> None:
    source = """
import pandas
from dateutil import tz
def evaluate(inputs, outputs, trace):
    here = pandas.Timestamp("2024-07-01 12:00", tz="Europe/Berlin")
    return [str(here.tz_convert("America/New_York")), str(tz.gettz("Asia/Tokyo").utcoffset(here.to_pydatetime()))]
"""
    [outcome] = await run(runner, source, None, limits=ROOMY)
    if "landlock" in runner.description:
        assert isinstance(outcome, Returned), outcome
        assert outcome.value == ["2024-07-01 06:00:00-04:00", "9:00:00"]
    else:
        # Nothing can be opened there, and there are hundreds of them.
        assert isinstance(outcome, Raised)
        assert (outcome.type, outcome.line) == ("PermissionError", 5)


async def test_only_code_that_imports_a_package_starts_a_process_that_has_it(lean: SandboxRunner) -> None:
    at_first = len(lean.zygote_pids)
    for line in ("import json, re, statistics", "'numpy and regex are only spoken of'", "numpy = regex = None"):
        await value_of(lean, f"{line}\ndef evaluate(inputs, outputs, trace):\n    return 1")
    assert len(lean.zygote_pids) == at_first
    with_numpy = "def evaluate(inputs, outputs, trace):\n    import numpy\n    return float(numpy.pi)"
    assert await value_of(lean, with_numpy, limits=ROOMY) == pytest.approx(3.14159, rel=1e-5)
    assert len(lean.zygote_pids) == at_first + 1
    modules = "import sys\ndef evaluate(inputs, outputs, trace):\n    return inputs in sys.modules"
    assert await value_of(lean, modules, "numpy") is False


async def test_code_that_leaves_pandas_alone_does_not_pay_for_it(runner: SandboxRunner) -> None:
    source = (
        "import numpy, sys\ndef evaluate(inputs, outputs, trace):\n    return [name in sys.modules for name in inputs]"
    )
    assert await value_of(runner, source, ["numpy", "pandas"], limits=ROOMY) == [True, False]


async def test_what_a_package_could_use_but_was_not_offered_stays_out(runner: SandboxRunner) -> None:
    source = """
import pandas, sys
def evaluate(inputs, outputs, trace):
    tops = {name.partition(".")[0] for name in sys.modules}
    return sorted(tops - sys.stdlib_module_names - {"__main__", "__mp_main__"})
"""
    modules = {name for package in installed_packages(None) for name, _ in package.modules}
    found = set(await value_of(runner, source, limits=ROOMY))
    # Extension modules may register parts of themselves under short names.
    assert {"fastapi", "pydantic", "sqlalchemy", "pytest", "pyarrow", "matplotlib"}.isdisjoint(found)
    assert modules <= found


async def test_no_process_that_has_a_package_has_a_second_thread(runner: SandboxRunner) -> None:
    await value_of(runner, WORK["numpy"][0], limits=ROOMY)
    await value_of(runner, WORK["pandas"][0], limits=ROOMY)
    processes = {below for pid in runner.zygote_pids for below in (pid, *descendants(pid))}
    assert {len(os.listdir(f"/proc/{pid}/task")) for pid in processes if is_running(pid)} == {1}


async def test_chance_is_another_in_every_process(runner: SandboxRunner) -> None:
    source = "import numpy\ndef evaluate(inputs, outputs, trace):\n    return float(numpy.random.random())"
    assert len({await value_of(runner, source, limits=ROOMY) for _ in range(3)}) == 3


async def test_the_environment_stays_empty(runner: SandboxRunner) -> None:
    source = "import os, numpy\ndef evaluate(inputs, outputs, trace):\n    return sorted(os.environ)"
    assert set(await value_of(runner, source, limits=ROOMY)) <= {"LC_CTYPE", "PWD"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("import torch", f"No module named 'torch'; {OFFERED}"),
        ("import pandas as pd", f"No module named 'pandas'; {OFFERED}"),
        ("from sklearn.metrics import f1_score", f"No module named 'sklearn'; {OFFERED}"),
        ("__import__('num' + 'py')", f"No module named 'numpy'; {UNSEEN}"),
        ("import json.absent", "No module named 'json.absent'"),
        ("import numpy.absent", "No module named 'numpy.absent'"),
        ("raise ModuleNotFoundError('of my own')", "of my own"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "where", ["{}\ndef evaluate(i, o, t):\n    return 1", "def evaluate(i, o, t):\n    pass\n    {}"]
)
async def test_a_module_that_is_missing_is_the_authors_own_error_and_names_those_there_are(
    lean: SandboxRunner, where: str, line: str, message: str
) -> None:
    source = where.format(line)
    [outcome] = await run(lean, source, None)
    assert isinstance(outcome, Raised)
    assert (outcome.kind, outcome.type, outcome.message) == ("script-raised", "ModuleNotFoundError", message)
    assert outcome.line == 1 + source[: source.index(line)].count("\n")


async def test_a_module_that_is_missing_can_be_done_without(lean: SandboxRunner) -> None:
    source = """
import importlib.util
try:
    import torch
except ImportError:
    torch = None
def evaluate(inputs, outputs, trace):
    return [torch, importlib.util.find_spec("torch")]
"""
    assert await value_of(lean, source) == [None, None]


async def test_a_server_that_offers_nothing_says_so() -> None:
    runner = await SandboxRunner.start_on(_best(), workers=1)
    try:
        [outcome] = await run(runner, "import numpy\ndef evaluate(i, o, t):\n    return 1", None)
    finally:
        await runner.close()
    assert isinstance(outcome, Raised)
    assert outcome.message == "No module named 'numpy'; this server offers no packages"


async def test_memory_is_what_the_code_takes_and_not_what_the_package_has(runner: SandboxRunner) -> None:
    source = (
        "import pandas, numpy\ndef evaluate(inputs, outputs, trace):\n    return numpy.ones(inputs << 17).sum() / 8"
    )
    limits = Limits(wall_s=20, memory_bytes=64 << 20)
    outcomes = await run(runner, source, 32, 100, 8, limits=limits)
    assert [type(outcome) for outcome in outcomes] == [Returned, Exceeded, Returned]
    assert isinstance(outcomes[1], Exceeded)
    assert outcomes[1].budget == "memory"


async def test_what_waits_on_a_process_that_died_is_run_by_another(lean: SandboxRunner) -> None:
    source = "import numpy\ndef evaluate(inputs, outputs, trace):\n    return inputs"
    await value_of(lean, source, 1, limits=ROOMY)
    victim = lean.zygote_pids[-1]
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not is_running(victim), "the process to be gone")
    assert await lean.unready() is None
    assert await value_of(lean, source, 2, limits=ROOMY) == 2


async def test_a_package_that_does_not_load_is_ours_until_it_does(tmp_path: Path) -> None:
    file = tmp_path / "fragile.py"
    file.write_text("raise RuntimeError('no such processor')")
    package = Package(
        name="fragile",
        version="1",
        own=("fragile",),
        modules=(("fragile", str(file)),),
        trees=(str(file),),
        needs=frozenset(("fragile",)),
    )
    runner = await SandboxRunner.start_on(_best(), workers=1, packages=[package])
    source = "import fragile\ndef evaluate(inputs, outputs, trace):\n    return fragile.VALUE"
    try:
        assert await runner.unready() is None
        [outcome] = await run(runner, source, None)
        assert isinstance(outcome, Unavailable)
        assert "no such processor" in outcome.cause
        assert outcome.cause == await runner.unready()
        file.write_text("VALUE = 7")
        assert await value_of(runner, source) == 7
        assert await runner.unready() is None
    finally:
        await runner.close()


async def test_two_who_ask_at_once_start_a_process_once(lean: SandboxRunner) -> None:
    at_first = len(lean.zygote_pids)
    sources = [f"import numpy\ndef evaluate(i, o, t):\n    return {n} + int(numpy.e)" for n in range(4)]
    values = await asyncio.gather(*[value_of(lean, source, number=n, limits=ROOMY) for n, source in enumerate(sources)])
    assert values == [2, 3, 4, 5]
    assert len(lean.zygote_pids) == at_first + 1
