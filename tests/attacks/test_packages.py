"""Attacks by way of packages: they read, write, load code and use memory on a scale the standard library does not."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assay.domain.outcome import Exceeded, Limits, Raised, Returned
from assay.runners.sandbox.packages import installed_packages
from assay.runners.sandbox.runner import SandboxRunner
from support.runners import ladder_runner
from support.sandbox import own_descendants, run, value_of
from support.server import wait_for

# The blocking look at a file is part of what is tested.
# ruff: noqa: ASYNC240
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SECRET = "alineofwordsthatnobodymaysee"
LIMITS = Limits(wall_s=10)
LIGHT = """
import numpy as np, regex, jsonschema
from rapidfuzz import fuzz, process
from dateutil import rrule, tz
"""
HEAVY = f"import io, os, pickle\nimport pandas as pd\n{LIGHT}"

idle = ladder_runner(workers=1, packages=installed_packages(None))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox(idle: SandboxRunner) -> AsyncIterator[SandboxRunner]:
    """The runner with all its processes started, so that those of before an attack can be told from others."""
    for imports in (LIGHT, HEAVY):
        await value_of(idle, f"{imports}\ndef evaluate(inputs, outputs, trace):\n    return 1", limits=LIMITS)
    yield idle


def source_of(body: str, imports: str = HEAVY) -> str:
    return f"{imports}\ndef evaluate(inputs, outputs, trace):\n    {body}"


READERS = {
    "numpy.load": "np.load(inputs, allow_pickle=True)",
    "numpy.fromfile": "np.fromfile(inputs, dtype='u1').tobytes()",
    "numpy.memmap": "np.memmap(inputs, mode='r').tobytes()",
    "numpy.loadtxt": "np.loadtxt(inputs, dtype=str)",
    "numpy.genfromtxt": "np.genfromtxt(inputs, dtype=str)",
    "numpy.fromregex": "np.fromregex(inputs, '([a-z]+)', dtype=[('word', 'S40')])",
    "numpy.DataSource": "np.lib.npyio.DataSource(None).open(inputs).read()",
    "pandas.read_csv": "pd.read_csv(inputs).columns",
    "pandas.read_csv in Python": "pd.read_csv(inputs, engine='python').columns",
    "pandas.read_csv of a mapping": "pd.read_csv(inputs, memory_map=True).columns",
    "pandas.read_csv of a URL": "pd.read_csv('file://' + inputs).columns",
    "pandas.read_table": "pd.read_table(inputs).columns",
    "pandas.read_fwf": "pd.read_fwf(inputs).columns",
    "pandas.read_pickle": "pd.read_pickle(inputs)",
    "jsonschema": "jsonschema.validate(1, {'$ref': 'file://' + inputs})",
    "jsonschema's resolver": "jsonschema.RefResolver('', {}).resolve_remote('file://' + inputs)",
    "dateutil.tz": "open(tz.tzfile(inputs)._filename).read()",
}
# These look into the file and find that it is not of their kind: that they looked is seen by another error.
LOOKERS = {
    "numpy.load", "pandas.read_pickle", "jsonschema", "jsonschema's resolver", "dateutil.tz",
}  # fmt: skip


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    file = tmp_path / "secret.csv"
    file.write_text(f"{SECRET}\n")
    return file


def what_it_comes_to(body: str, given: Any) -> str:
    """Return the value or the error of a body that nothing confines."""
    space: dict[str, Any] = {}
    try:
        exec(source_of(body), space)
        return repr(space["evaluate"](given, None, None))
    except Exception as error:
        return type(error).__name__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", READERS)
async def test_a_file_cannot_be_read(runner: SandboxRunner, secret: Path, how: str) -> None:
    body = f"return repr({READERS[how]})"
    unconfined = what_it_comes_to(body, str(secret))
    assert SECRET in unconfined or (how in LOOKERS and unconfined not in ("FileNotFoundError", "PermissionError"))
    [outcome] = await run(runner, source_of(body), str(secret), limits=LIMITS)
    assert isinstance(outcome, Raised), outcome
    assert outcome.line is not None
    assert SECRET not in repr(outcome)
    if how != "jsonschema":
        assert outcome.type in ("PermissionError", "FileNotFoundError", "URLError")


async def test_files_of_the_machine_cannot_be_read(runner: SandboxRunner) -> None:
    for body in ("return np.fromfile(inputs, 'u1').tobytes().decode()", "return pd.read_csv(inputs).to_csv()"):
        outcomes = await run(
            runner, source_of(body), "/etc/passwd", "/proc/self/maps", "/proc/1/cmdline", limits=LIMITS
        )
        assert {outcome.type for outcome in outcomes if isinstance(outcome, Raised)} <= {
            "PermissionError", "FileNotFoundError",
        }  # fmt: skip
        assert all(isinstance(outcome, Raised) for outcome in outcomes)


async def test_what_is_installed_beside_the_packages_cannot_be_read(runner: SandboxRunner) -> None:
    import fastapi
    import numpy

    import assay.settings

    site_packages = Path(numpy.__file__).parents[1]
    about = next(site_packages.glob("numpy-*.dist-info")) / "RECORD"
    source = source_of("return open(inputs).read()")
    outcomes = await run(runner, source, assay.settings.__file__, fastapi.__file__, str(about), limits=LIMITS)
    assert [type(outcome) for outcome in outcomes] == [Raised] * 3
    listing = source_of("return os.listdir(inputs)")
    [outcome] = await run(runner, listing, str(site_packages), limits=LIMITS)
    assert isinstance(outcome, Raised)
    importing = source_of("return __import__(inputs).__name__")
    outcomes = await run(runner, importing, "fastapi", "pydantic", "sqlalchemy", "assay.settings", limits=LIMITS)
    assert [outcome.type for outcome in outcomes[:3] if isinstance(outcome, Raised)] == ["ModuleNotFoundError"] * 3
    assert isinstance(outcomes[3], Raised)


async def test_the_lean_process_cannot_read_what_packages_may(runner: SandboxRunner) -> None:
    import numpy

    source = "def evaluate(inputs, outputs, trace):\n    return open(inputs).read()"
    [outcome] = await run(runner, source, numpy.__file__)
    assert isinstance(outcome, Raised)
    assert outcome.type in ("PermissionError", "FileNotFoundError")


CALLERS = {
    "pandas.read_csv": "pd.read_csv(inputs)",
    "pandas.read_json": "pd.read_json(inputs)",
    "pandas.read_pickle": "pd.read_pickle(inputs)",
    "numpy.DataSource": "np.lib.npyio.DataSource(None).open(inputs)",
    "numpy.genfromtxt": "np.genfromtxt(inputs)",
    "jsonschema": "jsonschema.validate(1, {'$ref': inputs})",
    "jsonschema's resolver": "jsonschema.RefResolver('', {}).resolve_remote(inputs)",
}


@pytest.mark.parametrize("how", CALLERS)
async def test_no_address_can_be_fetched(runner: SandboxRunner, how: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        [outcome] = await run(runner, source_of(CALLERS[how]), address, limits=LIMITS)
        assert isinstance(outcome, Raised), outcome
        assert outcome.line is not None
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


WRITERS = {
    "numpy.save": "np.save(inputs + '/new', np.zeros(3))",
    "numpy.savez": "np.savez(inputs + '/new', np.zeros(3))",
    "numpy.savetxt": "np.savetxt(inputs + '/new', np.zeros(3))",
    "tofile": "np.zeros(3).tofile(inputs + '/new')",
    "dump": "np.zeros(3).dump(inputs + '/new')",
    "a new mapping": "np.memmap(inputs + '/new', mode='w+', shape=(9,))",
    "an old mapping": "np.memmap(inputs + '/old', mode='r+')[:].fill(0)",
    "to_csv": "pd.DataFrame({'a': [1]}).to_csv(inputs + '/new')",
    "to_json": "pd.DataFrame({'a': [1]}).to_json(inputs + '/new')",
    "to_pickle": "pd.DataFrame({'a': [1]}).to_pickle(inputs + '/new')",
    "to_csv over another": "pd.DataFrame({'a': [1]}).to_csv(inputs + '/old')",
}


@pytest.mark.parametrize("how", WRITERS)
async def test_nothing_can_be_written(runner: SandboxRunner, tmp_path: Path, how: str) -> None:
    old = tmp_path / "old"
    old.write_text(SECRET)
    what_it_comes_to(WRITERS[how], str(tmp_path))
    assert sorted(tmp_path.iterdir()) != [old] or old.read_text() != SECRET, "it writes nothing anywhere"
    for file in tmp_path.iterdir():
        file.unlink()
    old.write_text(SECRET)
    [outcome] = await run(runner, source_of(f"{WRITERS[how]}\n    return True"), str(tmp_path), limits=LIMITS)
    assert isinstance(outcome, Raised), outcome
    assert outcome.type in ("PermissionError", "FileNotFoundError", "OSError")
    assert list(tmp_path.iterdir()) == [old]
    assert old.read_text() == SECRET


STARTERS = {
    "a pickle in numpy.load": "data = io.BytesIO()\n"
    "    np.save(data, np.array([Bomb(inputs)], dtype=object), allow_pickle=True)\n"
    "    np.load(io.BytesIO(data.getvalue()), allow_pickle=True)",
    "a pickle in pandas.read_pickle": "pd.read_pickle(io.BytesIO(pickle.dumps(Bomb(inputs))))",
    "numpy.ctypeslib": "libc = np.ctypeslib.load_library('libc.so.6', '/lib/x86_64-linux-gnu')\n"
    "    libc.system(b'touch ' + inputs.encode())",
    "ctypes over an array": "import ctypes; ctypes.CDLL(None).system(np.ctypeslib.as_ctypes(np.frombuffer(b'touch ' + "
    "inputs.encode() + bytes(1), 'u1').copy()))",
    "DataFrame.query": "pd.DataFrame({'a': [1]}).query('@os.system(@path)', local_dict={'os': os, 'path': 'touch ' + "
    "inputs})",
    "DataFrame.eval": "pd.DataFrame({'a': [1]}).eval('@f(@inputs)', local_dict={'f': touch, 'inputs': inputs}, "
    "engine='python')",
    "pandas.eval": "pd.eval('f(inputs)', local_dict={'f': touch, 'inputs': inputs}, engine='python')",
    "apply": "pd.Series([inputs]).apply(touch)",
    "vectorize": "np.vectorize(touch, otypes=[object])(np.array([inputs], dtype=object))",
    "a scorer": "process.extract('a', [inputs], scorer=lambda a, b, **k: touch(b))",
    "a format checker": "checker = jsonschema.FormatChecker()\n"
    "    checker.checks('touched')(touch)\n"
    "    jsonschema.validate(inputs, {'format': 'touched'}, format_checker=checker)",
    "a fork": "from multiprocessing import get_context\n"
    "    get_context('fork').Process(target=touch, args=(inputs,)).start()",
}  # fmt: skip
TOOLS = """
class Bomb:
    def __init__(self, path): self.path = path
    def __reduce__(self): return (os.system, ("touch " + self.path,))

def touch(path):
    return os.system("touch " + path)
"""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("how", STARTERS)
async def test_code_within_data_starts_no_process(runner: SandboxRunner, tmp_path: Path, how: str) -> None:
    before = len(own_descendants())
    touched = tmp_path / "touched"
    source = source_of(f"{STARTERS[how]}\n    return os.getpid()", f"{HEAVY}\n{TOOLS}")
    outcomes = await run(runner, source, str(touched), limits=LIMITS)
    # os.system says by its value that nothing was started, so it depends on the caller whether there is an error.
    assert isinstance(outcomes[0], (Raised, Returned)), outcomes
    assert not list(tmp_path.iterdir())
    wait_for(lambda: len(own_descendants()) <= before, "the child to be gone")


THREADS = {
    "threads over an array": "from concurrent.futures import ThreadPoolExecutor\n"
    "    return float(sum(ThreadPoolExecutor(4).map(np.sum, [np.ones(9)] * 8)))",
    "rapidfuzz on all cores": "return process.cdist(['a' * 99] * 500, ['b' * 99] * 500, workers=-1).shape[0]",
    "rapidfuzz on eight": "return process.cpdist(['a' * 99] * 500, ['b' * 99] * 500, workers=8).shape[0]",
    "a process pool": "from multiprocessing import Pool\n    return sum(Pool(2).map(np.sum, [np.ones(9)] * 8))",
}


@pytest.mark.parametrize("how", THREADS)
async def test_no_thread_or_process_can_be_started(runner: SandboxRunner, how: str) -> None:
    source = source_of(f"if inputs:\n        return True\n    {THREADS[how]}", LIGHT)
    outcomes = await run(runner, source, 1, 0, 1, limits=LIMITS)
    assert [type(outcome) for outcome in outcomes] == [Returned, Raised, Returned]


async def test_one_core_is_enough_for_linear_algebra(runner: SandboxRunner) -> None:
    source = source_of(
        "a = np.random.default_rng(1).random((400, 400))\n    return bool(np.isfinite(np.linalg.inv(a @ a)).all())"
    )
    assert await value_of(runner, source, limits=LIMITS) is True


HANGS = {
    "regex": "regex.match('(a|aa)+$', 'a' * 60 + 'b')",
    "regex, beside others": "regex.match('(a|aa)+$', 'a' * 60 + 'b', concurrent=True)",
    "a pattern in a schema": "jsonschema.validate('a' * 60 + 'b', {'pattern': '^(a+)+$'})",
    "a pattern over a series": "pd.Series(['a' * 60 + 'b']).str.match('(a+)+$')",
    "one long call of rapidfuzz": "process.cdist(['ab' * 500] * 2000, ['cd' * 500] * 2000, scorer=fuzz.partial_ratio)",
    "a product that does not end": "for _ in iter(int, 1): np.linalg.svd(np.ones((300, 300)))",
    "a calendar that does not end": "sum(1 for _ in rrule.rrule(rrule.SECONDLY))",
    "a schema that refers to itself": "schema = {'items': {'$ref': '#'}}; deep = []\n"
    "        for _ in iter(int, 1): jsonschema.validate([[[]]] * 99, schema)",
}


@pytest.mark.parametrize("how", HANGS)
async def test_what_hangs_is_killed_and_alone_blamed(runner: SandboxRunner, how: str) -> None:
    source = source_of(f"if inputs:\n        {HANGS[how]}\n    return True")
    outcomes = await run(runner, source, 0, 1, 0, limits=Limits(wall_s=2))
    assert isinstance(outcomes[1], Exceeded), outcomes[1]
    assert outcomes[1].budget == "wall"
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


BOMBS = {
    "zeros": "np.zeros(10**12)",
    "ones": "np.ones(10**9)",
    "an outer product": "np.outer(np.ones(10**5), np.ones(10**5))",
    "a broadcast": "np.broadcast_to(np.ones(1), (10**10,)).copy()",
    "a frame": "pd.DataFrame(np.ones((10**4, 10**5)))",
    "a cross product": "pd.merge(*[pd.DataFrame({'a': range(10**5)})] * 2, how='cross')",
    "rapidfuzz": "process.cdist(['a'] * 40000, ['b'] * 40000)",
    "a growing series": "grown = pd.Series(['x' * 1000]).repeat(10**6).str.cat(sep='')",
}


@pytest.mark.parametrize("how", BOMBS)
async def test_memory_is_bounded(runner: SandboxRunner, how: str) -> None:
    source = source_of(f"if inputs:\n        {BOMBS[how]}\n    return True")
    outcomes = await run(runner, source, 0, 1, 0, limits=LIMITS)
    assert isinstance(outcomes[1], Exceeded), outcomes[1]
    assert outcomes[1].budget == "memory"
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


CRASHES = {
    "an array over all memory": "np.lib.stride_tricks.as_strided(np.zeros(1), (10**9,), (4096,)).sum()",
    "a pointer from nowhere": "np.ctypeslib.as_array(__import__('ctypes').cast(8, __import__('ctypes')"
    ".POINTER(__import__('ctypes').c_int)), (9,)).sum()",
}


@pytest.mark.parametrize("how", CRASHES)
async def test_a_crash_in_native_code_is_named_and_alone(runner: SandboxRunner, how: str) -> None:
    source = source_of(f"if inputs:\n        {CRASHES[how]}\n    return True", LIGHT)
    outcomes = await run(runner, source, 0, 1, 0, limits=LIMITS)
    assert isinstance(outcomes[1], Raised), outcomes[1]
    assert outcomes[1].kind == "script-crashed"
    assert [type(outcomes[index]) for index in (0, 2)] == [Returned, Returned]


PATCHES = """
import numpy as np, regex, jsonschema, sys
from rapidfuzz import fuzz

def evaluate(inputs, outputs, trace):
    if inputs:
        np.mean = regex.findall = jsonschema.validate = fuzz.ratio = lambda *_, **__: 666
        np.linalg.norm.__defaults__ = (666,)
        np.set_printoptions(precision=1)
        np.seterr(all="ignore")
        sys.modules["numpy.random"] = None
    return [float(np.mean([1, 3])), fuzz.ratio("a", "a"), regex.findall("a", "aa"), np.get_printoptions()["precision"],
            "numpy.random" in sys.modules and sys.modules["numpy.random"] is not None]
"""
UNTOUCHED = [2.0, 100.0, ["a", "a"], 8, True]


async def test_what_is_patched_in_a_package_reaches_no_other_batch_revision_or_project(runner: SandboxRunner) -> None:
    [patched] = await run(runner, PATCHES, 1, limits=LIMITS)
    assert isinstance(patched, Returned), patched
    assert isinstance(patched.value, list)
    assert patched.value[0] == 666
    assert await value_of(runner, PATCHES, 0, limits=LIMITS) == UNTOUCHED
    assert await value_of(runner, PATCHES, 0, number=2, limits=LIMITS) == UNTOUCHED
    assert await value_of(runner, PATCHES, 0, project_id="another", limits=LIMITS) == UNTOUCHED
    heavy = PATCHES.replace("import numpy", "import pandas, numpy")
    together = await asyncio.gather(
        *[run(runner, heavy, n % 2, number=n, project_id=f"p{n}", limits=LIMITS) for n in range(6)]
    )
    values = [outcome.value for [outcome] in together if isinstance(outcome, Returned)]
    assert [value[0] for value in values if isinstance(value, list)] == [2.0, 666] * 3


async def test_memory_written_past_the_language_reaches_no_other_batch(runner: SandboxRunner) -> None:
    """A small integer and a name of numpy's own are overwritten where they lie, in pages shared until then."""
    source = """
import ctypes
import numpy as np
def evaluate(inputs, outputs, trace):
    if inputs:
        ctypes.c_int.from_address(id(5) + 24).value = 6
        ctypes.memmove(id(np.__version__) + 48, b"6", 1)
    return [int("2") + 3, np.__version__[0]]
"""
    before = await value_of(runner, source, 0, limits=LIMITS)
    await run(runner, source, 1, limits=LIMITS)
    assert await value_of(runner, source, 0, limits=LIMITS) == before == [5, before[1]]
    assert before[1] != "6"


async def test_time_zones_lead_to_no_other_file(runner: SandboxRunner, secret: Path) -> None:
    source = source_of("return str(tz.gettz(inputs)) + str(tz.tzlocal())")
    names = [
        str(secret),
        "../../../../../../../../../etc/passwd",
        "/etc/localtime",
        os.path.relpath(secret, "/usr/share"),
    ]
    for outcome in await run(runner, source, *names, limits=LIMITS):
        assert SECRET not in repr(outcome)
        assert "root:" not in repr(outcome)
        assert isinstance(outcome, (Raised, Returned))
