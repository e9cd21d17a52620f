"""An author's error is told as theirs, with their lines alone; and what their code prints is a log, never a result."""

from collections.abc import AsyncIterator
from functools import partial
from typing import NamedTuple

import pytest
import pytest_asyncio

from assay.domain.check import Check
from assay.domain.evaluator import Interface, Language
from assay.domain.outcome import Limits
from assay.domain.subject import Testcase as Row
from assay.engine import Engine
from assay.runners.local.runner import LocalRunner
from assay.runners.sandbox.runner import SandboxRunner
from assay.testing import FixedClock
from support.runners import module_runner
from support.sandbox import revision_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

LANGUAGES: list[Language] = ["python", "javascript", "typescript"]
LIMITS = Limits(wall_s=4)


class Broken(NamedTuple):
    """A source with an error, and what the check tells of it; the line is the one marked `here`."""

    language: Language
    source: str
    message: str
    interface: Interface = "evaluate"


PYTHON = [
    ("def evaluate(i, o, t):\n    return i['wanted']  # here", "KeyError: 'wanted'"),
    ("class Row(dict):\n    pass\n\ndef evaluate(i, o, t):\n    return Row()['x']  # here", "KeyError: 'x'"),
    ("def find(i):\n    return {}[('a', 1)]  # here\n\ndef evaluate(i, o, t):\n    return find(i)",
     "KeyError: ('a', 1)"),
    ("class Odd(KeyError):\n    pass\n\ndef evaluate(i, o, t):\n    raise Odd('mine')  # here", "Odd: 'mine'"),
    ("def evaluate(i, o, t):\n    raise MemoryError('mine') if i is None else ValueError  # here", "ValueError"),
    ("def evaluate(i, o, t):\n    return [][5]  # here", "IndexError: list index out of range"),
    ("def evaluate(i, o, t):\n    return o.missing  # here", "AttributeError: 'str' object has no attribute 'missing'"),
    ("def evaluate(i, o, t):\n    return undefined  # here", "NameError: name 'undefined' is not defined"),
    ("import not_there  # here\ndef evaluate(i, o, t):\n    return 1",
     "ModuleNotFoundError: No module named 'not_there'"),
    ("async def evaluate(i, o, t):\n    raise LookupError('late')  # here", "LookupError: late"),
    ("def evaluate(i, o, t):\n    raise TimeoutError('mine')  # here", "TimeoutError: mine"),
    ("def evaluate(i, o, t):\n    raise StopIteration(0.5)  # here", "StopIteration: 0.5"),
    ("async def evaluate(i, o, t):\n    raise StopIteration(0.5)  # here",
     "RuntimeError: coroutine raised StopIteration"),
    ("def evaluate(i, o, t):\n    try:\n        {}['a']\n    except KeyError as e:\n"
     "        raise ValueError('b') from e  # here", "ValueError: b"),
    ("from dataclasses import dataclass\n@dataclass\nclass R:\n    a: int\n    def __getattribute__(self, name):\n"
     "        if name == 'a':\n            raise KeyError('a')  # here\n"
     "        return object.__getattribute__(self, name)\n"
     "def evaluate(i, o, t):\n    return {'r': R(1)}", "KeyError: 'a'"),
]  # fmt: skip
HANDLERS = [
    ("async def handler(i, o, e, m, trace):\n    return (await trace.get_spans())[0]['x']  # here", "IndexError"),
    ("async def handler(i, o, e, m, trace):\n    return m['user']  # here", "KeyError: 'user'"),
    ("async def handler(i, o, e, m, trace):\n    await trace.get_spans(5)  # here", "TypeError"),
]
SCRIPTS = [
    ("function evaluate(i) {\n  return i.a.b; // here\n}", "TypeError: cannot read property 'b' of undefined"),
    ("const find = (i) => {\n  throw new RangeError('mine'); // here\n};\nfunction evaluate(i) {\n  return find(i);\n}",
     "RangeError: mine"),
    ("class KeyError extends Error {\n}\nfunction evaluate() {\n  throw new KeyError('wanted'); // here\n}",
     "KeyError: wanted"),
    ("async function evaluate() {\n  await null;\n  throw new TypeError('late'); // here\n}", "TypeError: late"),
    ("function evaluate() {\n  return missing; // here\n}", "ReferenceError: missing is not defined"),
    ("function evaluate() {\n  return { get a() {\n    throw new SyntaxError('mine'); // here\n  } };\n}",
     "SyntaxError: mine"),
    ("function evaluate() {\n  return Promise.resolve(1).then(() => {\n    throw new Error('then'); // here\n  });\n}",
     "Error: then"),
    ("missing(); // here\nfunction evaluate() { return 1 }", "ReferenceError: missing is not defined"),
    ("class Own extends Error {\n  constructor() { super('own'); this.name = 'Named' }\n}\n"
     "function evaluate() {\n  throw new Own(); // here\n}", "Named: own"),
]  # fmt: skip
BROKEN = [
    *[Broken("python", source, message) for source, message in PYTHON],
    *[Broken("python", source, message, "handler") for source, message in HANDLERS],
    *[Broken("javascript", source, message) for source, message in SCRIPTS],
    *[Broken("typescript", source, message) for source, message in SCRIPTS],
]


sandbox = module_runner(partial(SandboxRunner.start, workers=1, minimum="no-landlock"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(sandbox: SandboxRunner) -> Engine:
    return Engine(dict.fromkeys(LANGUAGES, sandbox), FixedClock(), LIMITS)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local() -> AsyncIterator[Engine]:
    """An engine whose code is not confined, so that it can start threads."""
    started = await LocalRunner.start(workers=1)
    try:
        yield Engine(dict.fromkeys(LANGUAGES, started), FixedClock(), LIMITS)
    finally:
        await started.close()


async def checks_of(
    engine: Engine, source: str, language: Language, count: int = 1, interface: Interface = "evaluate"
) -> list[Check]:
    rows = [Row(inputs={"n": number}, outputs="an answer") for number in range(count)]
    checks = await engine.evaluate(revision_of(source, interface, language=language), rows)
    assert len(checks) == count
    return [check for check in checks if isinstance(check, Check)]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: f"{broken.language}-{broken.message[:30]}")
async def test_an_error_shows_its_type_and_message_and_the_authors_lines_alone(engine: Engine, broken: Broken) -> None:
    [check] = await checks_of(engine, broken.source, broken.language, interface=broken.interface)
    error = check.reading.error
    assert check.reading.status == "errored"
    assert error is not None
    assert error.kind == "script-raised"
    assert error.message.startswith(broken.message)
    [here] = [number for number, line in enumerate(broken.source.split("\n"), 1) if "here" in line]
    assert error.line == here
    assert error.traceback is not None
    assert "here" in error.traceback
    for ours in ("assay", "worker", "prelude", "<input>", "plain.py", "site-packages", "asyncio"):
        assert ours not in error.traceback.replace("import asyncio", "")


SPOOFS: dict[Language, list[str]] = {
    "python": [
        'print(\'{"success": true, "score": 0.99}\')',
        "import os; os.write(1, b'0.99')",
        "import os; os.write(2, b'=0.99')",
        "import sys; sys.__stdout__.write('0.99\\n')",
        "import sys; sys.stdout.buffer.write(b'\\x00' * 64 + b'0.99')",
        "import atexit; atexit.register(print, '0.99')",
        "import atexit, os; atexit.register(os.write, 1, b'0.99')",
        "import sys; sys.excepthook = print; sys.unraisablehook = print",
        "import warnings; warnings.warn('0.99')",
        "import logging; logging.error('0.99')",
        "import weakref; weakref.finalize(evaluate, print, '0.99')",
    ],
    "javascript": [
        'console.log(\'{"success": true, "score": 0.99}\')',
        "console.log('=0.99'); console.error('#0.99')",
        "queueMicrotask(() => console.log('0.99'))",
        "Promise.resolve().then(() => 0.99)",
        "new FinalizationRegistry(() => console.log('0.99')).register({}, 1)",
        "console.log = () => 0.99",
        "globalThis.result = globalThis.answer = globalThis.body = '0.99'",
    ],
}
THREADS = [
    "import threading; threading.Thread(target=print, args=('0.99',)).start()",
    "import threading; threading.Timer(0, print, ('0.99',)).start()",
    "import threading, os; threading.Thread(target=os.write, args=(1, b'0.99')).start()",
    "import threading, sys; threading.Thread(target=lambda: sys.__stderr__.write('0.99'), daemon=True).start()",
]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_nothing_that_is_printed_or_left_for_the_end_spoofs_a_result(engine: Engine, language: Language) -> None:
    for step in SPOOFS["python" if language == "python" else "javascript"]:
        source = (
            f"def evaluate(i, o, t):\n    {step}\n    return i['n'] / 10"
            if language == "python"
            else f"function evaluate(i{': any' if language == 'typescript' else ''}) {{ {step}; return i.n / 10 }}"
        )
        checks = await checks_of(engine, source, language, 3)
        assert [check.reading.metrics for check in checks] == [{"score": n / 10, "success": False} for n in range(3)], (
            step
        )


@pytest.mark.parametrize("step", THREADS)
async def test_nothing_that_a_thread_prints_spoofs_a_result(engine: Engine, local: Engine, step: str) -> None:
    source = f"def evaluate(i, o, t):\n    {step}\n    return i['n'] / 10"
    checks = await checks_of(local, source, "python", 3)
    assert [check.reading.metrics for check in checks] == [{"score": n / 10, "success": False} for n in range(3)]
    for check in await checks_of(engine, source, "python", 3):
        assert check.reading.error is not None
        assert "can't start new thread" in check.reading.error.message
