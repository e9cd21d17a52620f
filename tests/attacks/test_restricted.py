"""Attacks on the restricted runner. Each one reaches the host in plain Python, or it would prove nothing here."""

import ast
import sys
import textwrap
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from assay.domain.evaluator import Interface
from assay.domain.outcome import Limits, Outcome, Raised
from assay.ports import Runner
from assay.runners.local.runner import LocalRunner
from assay.runners.restricted.runner import RestrictedRunner
from support.sandbox import call_of, revision_of, value_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = Limits(wall_s=5)
IN_FILE = "the-words-in-the-file"
IN_ENVIRONMENT = "the-value-in-the-environment"

GRAPH = (
    "[kind for kind in ().__class__.__base__.__subclasses__() if kind.__name__ == '_wrap_close'][0]"
    ".__init__.__globals__['sys'].executable"
)

# `inputs` is the path of a file. An attack returns what is in it, or the environment, or the interpreter's path.
EVALUATE = {
    "open": "return open(inputs).read()",
    "import-os": "import os\nreturn os.popen('cat ' + inputs).read()",
    "import-from-os": "from os import popen\nreturn popen('cat ' + inputs).read()",
    "import-subprocess": "import subprocess\nreturn subprocess.getoutput('cat ' + inputs)",
    "import-importlib": "import importlib\nreturn importlib.import_module('os').popen('cat ' + inputs).read()",
    "import-pathlib": "import pathlib\nreturn pathlib.Path(inputs).read_text()",
    "import-operator": "import operator, textwrap\nget = operator.attrgetter('__globals__')\n"
    "return get(textwrap.dedent)['re'].enum.sys.executable",
    "import-name": "return __import__('os').popen('cat ' + inputs).read()",
    "import-builtin": "return __builtins__['open'](inputs).read()",
    "import-relative": "from json import codecs\nreturn codecs.open(inputs).read()",
    "import-submodule": "from json import decoder\nreturn decoder.scanner.re.enum.sys.executable",
    "import-submodule-as": "import json.decoder as decoder\nreturn decoder.scanner.re.enum.sys.executable",
    "module-json-codecs": "import json\nreturn json.codecs.open(inputs).read()",
    "module-json-codecs-sys": "import json\nreturn json.codecs.sys.modules['os'].popen('cat ' + inputs).read()",
    "module-typing-sys": "import typing\nreturn typing.sys.executable",
    "module-typing-from": "from typing import sys\nreturn sys.executable",
    "module-re-enum": "import re\nreturn re.enum.sys.executable",
    "module-statistics-sys": "import statistics\nreturn statistics.sys.executable",
    "module-random-os": "import random\nreturn random._os.popen('cat ' + inputs).read()",
    "module-collections-sys": "import collections\nreturn collections._sys.executable",
    "module-textwrap-re": "import textwrap\nreturn textwrap.re.enum.sys.executable",
    "module-getattr": "import json\nreturn getattr(getattr(json, 'codecs'), 'open')(inputs).read()",
    "module-vars": "import json\nreturn vars(json)['codecs'].open(inputs).read()",
    "module-dict": "import json\nreturn json.__dict__['codecs'].open(inputs).read()",
    "module-dict-getattr": "import json\nreturn getattr(json, '__dict__')['codecs'].open(inputs).read()",
    "module-loader": "import json\nreturn json.__loader__.get_data(inputs).decode()",
    "module-match": "import json\nmatch json:\n    case object(codecs=found):\n"
    "        return found.open(inputs).read()",
    "class-graph": "for kind in ().__class__.__base__.__subclasses__():\n    if kind.__name__ == '_wrap_close':\n"
    "        return kind.__init__.__globals__['popen']('cat ' + inputs).read()",
    "class-graph-getattr": "for kind in getattr(object, '__sub' + 'classes__')():\n"
    "    if getattr(kind, '__na' + 'me__') == '_wrap_close':\n"
    "        return getattr(getattr(kind, '__in' + 'it__'), '__glo' + 'bals__')['popen']('cat ' + inputs).read()",
    "class-graph-mro": "root = type(inputs).mro()[-1]\nfor kind in getattr(root, '__subclasses__')():\n"
    "    if getattr(kind, '__name__') == '_wrap_close':\n"
    "        return getattr(getattr(kind, '__init__'), '__globals__')['popen']('cat ' + inputs).read()",
    "class-unicode": f"return {GRAPH}".replace("class", "ｃlass"),
    "class-super": "class Base:\n    def root(self):\n        return super().__getattribute__('root').__globals__\n"
    "return Base().root()['__builtins__']['open'](inputs).read()",
    "function-globals": "import textwrap\nreturn textwrap.dedent.__globals__['re'].enum.sys.executable",
    "function-globals-getattr": "import textwrap\n"
    "return getattr(textwrap.dedent, '__globals__')['re'].enum.sys.executable",
    "function-builtins": "import textwrap\nreturn textwrap.dedent.__builtins__['open'](inputs).read()",
    "function-own-builtins": "return evaluate.__builtins__['open'](inputs).read()",
    "function-self": "return len.__self__.open(inputs).read()",
    "eval": 'return eval("open(\'" + inputs + "\').read()")',
    "exec": "found = {}\nexec('import os', found)\nreturn found['os'].popen('cat ' + inputs).read()",
    "compile": "return eval(compile(\"open('\" + inputs + \"').read()\", '', 'eval'))",
    "globals": "return globals()['__builtins__']['open'](inputs).read()",
    "format": "import textwrap\nreturn '{0.__globals__[re].enum.sys.executable}'.format(textwrap.dedent)",
    "format-getattr": "import textwrap\n"
    "return getattr('{0.__globals__[re].enum.sys.executable}', 'for' + 'mat')(textwrap.dedent)",
    "format-of-str": "import textwrap\nreturn str.format('{0.__globals__[re].enum.sys.executable}', textwrap.dedent)",
    "format-mapped": "import textwrap\n"
    "return list(map(str.format, ['{0.__globals__[re].enum.sys.executable}'], [textwrap.dedent]))[0]",
    "format-partial": "import functools, textwrap\n"
    "return functools.partial(str.format, '{0.__globals__[re].enum.sys.executable}')(textwrap.dedent)",
    "format-nested": "import textwrap\n"
    "return '{0:{1.__globals__[re].enum.sys.executable}<1}'.format(1, textwrap.dedent)",
    "format-map": "import textwrap\n"
    "return '{f.__globals__[re].enum.sys.executable}'.format_map({'f': textwrap.dedent})",
    "format-map-of-str": "import textwrap\n"
    "return str.format_map('{f.__globals__[re].enum.sys.executable}', {'f': textwrap.dedent})",
    "format-subclass": "import textwrap\nclass Text(str):\n    pass\n"
    "return Text('{0.__globals__[re].enum.sys.executable}').format(textwrap.dedent)",
    "format-super": "import textwrap\nclass Text(str):\n    def out(self, *given):\n"
    "        return super().format(*given)\n"
    "return Text('{0.__globals__[re].enum.sys.executable}').out(textwrap.dedent)",
    "format-alias": "import textwrap, typing\n"
    "return typing.Annotated[str, 1].format('{0.__globals__[re].enum.sys.executable}', textwrap.dedent)",
    "format-generic-alias": "import textwrap\nalias = type(list[int])(str, ())\n"
    "return alias.format('{0.__globals__[re].enum.sys.executable}', textwrap.dedent)",
    "format-formatter": "import string, textwrap\n"
    "return string.Formatter().format('{0.__globals__[re].enum.sys.executable}', textwrap.dedent)",
    "format-user-string": "import collections, textwrap\n"
    "return collections.UserString('{0.__globals__[re].enum.sys.executable}').format(textwrap.dedent)",
    "format-environment": "import textwrap\n"
    "return '{0.__globals__[re].enum.sys.modules[os].environ}'.format(textwrap.dedent)",
    "f-string": "import textwrap\nreturn f\"{textwrap.dedent.__globals__['re'].enum.sys.executable}\"",
    "generator-frame": "def steps():\n    yield running.gi_frame.f_back.f_back\nrunning = steps()\n"
    "return next(running).f_globals['sys'].executable",
    "generator-frame-getattr": "def steps():\n    yield getattr(getattr(running, 'gi_frame'), 'f_back')\n"
    "running = steps()\nreturn getattr(getattr(next(running), 'f_back'), 'f_globals')['sys'].executable",
    "generator-expression": "running = (getattr(running, 'gi_frame').f_back.f_back.f_back for _ in [1])\n"
    "return [frame for frame in running][0].f_globals['sys'].executable",
    "traceback-frame": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
    "    return error.__traceback__.tb_frame.f_back.f_globals['sys'].executable",
    "traceback-getattr": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n"
    "    frame = getattr(getattr(error, '__trace' + 'back__'), 'tb_' + 'frame')\n"
    "    return getattr(getattr(frame, 'f_back'), 'f_globals')['sys'].executable",
    "traceback-context": "class Manager:\n    def __enter__(self):\n        return self\n"
    "    def __exit__(self, kind, error, trace):\n        self.found = trace.tb_frame.f_back.f_globals\n"
    "        return True\nwith Manager() as manager:\n    1 / 0\nreturn manager.found['sys'].executable",
    "exception-group": "try:\n    raise ExceptionGroup('', [ValueError()])\nexcept* ValueError as error:\n"
    "    found = error.__traceback__.tb_frame.f_back.f_globals['sys'].executable\nreturn found",
    "attribute-error-obj": "import json\ntry:\n    json.absent\nexcept AttributeError as error:\n"
    "    return error.obj.codecs.open(inputs).read()",
    "attribute-error-obj-getattr": "import json\ntry:\n    json.absent\nexcept AttributeError as error:\n"
    "    return getattr(error, 'ob' + 'j').codecs.open(inputs).read()",
    "attribute-error-obj-format": "import json\ntry:\n    json.absent\nexcept AttributeError as error:\n"
    "    return '{0.obj.codecs.sys.executable}'.format(error)",
    "attribute-error-obj-taken": "import json\nclass Taker:\n    def __radd__(self, other):\n"
    "        self.taken = other\n        return self\ntaker = Taker()\ntry:\n    json.absent\n"
    "except AttributeError as error:\n    error.obj += taker\n    return taker.taken.codecs.open(inputs).read()",
    "decorator-open": "def path(_):\n    return inputs\n@open\n@path\nclass handle:\n    pass\nreturn handle.read()",
    "decorator-eval": f'@eval\n@(lambda _: "{GRAPH}")\nclass words:\n    pass\nreturn words',
    "decorator-attribute": "import json\n@json.codecs.open\n@(lambda _: inputs)\nclass handle:\n    pass\n"
    "return handle.read()",
    "coroutine-frame": "async def work():\n    pass\ntask = work()\nfound = task.cr_frame.f_builtins['open']\n"
    "task.close()\nreturn found(inputs).read()",
    "coroutine-frame-back": "async def work():\n    return task.cr_frame.f_back.f_back.f_globals\ntask = work()\n"
    "try:\n    task.send(None)\nexcept StopIteration as end:\n    return end.value['sys'].executable",
    "coroutine-frame-getattr": "async def work():\n"
    "    return getattr(getattr(task, 'cr_' + 'frame'), 'f_back').f_back.f_globals\ntask = work()\n"
    "try:\n    task.send(None)\nexcept StopIteration as end:\n    return end.value['sys'].executable",
    "async-generator-frame": "async def work():\n    yield 1\nreturn work().ag_frame.f_builtins['open'](inputs).read()",
    "wrapper-globals": "import functools, textwrap\nclass Taker:\n    pass\ntaker = Taker()\n"
    "functools.update_wrapper(taker, textwrap.dedent, assigned=('__globals__',), updated=())\n"
    "return vars(taker)['__globals__']['re'].enum.sys.executable",
    "wrapper-updated": "import functools, textwrap\ndef mine():\n    return re.enum.sys.executable\n"
    "functools.update_wrapper(mine, textwrap.dedent, assigned=(), updated=('__globals__',))\nreturn mine()",
    "wraps-assigned": "import functools, textwrap\n@functools.wraps(textwrap.dedent, ('__globals__',), ())\n"
    "class Taker:\n    pass\nreturn vars(Taker)['__globals__']['re'].enum.sys.executable",
    "hints-evaluated": f'import typing\ndef typed(x: "print({GRAPH})"):\n    pass\n'
    "typing.get_type_hints(typed)\nreturn 1",
    "hints-reference": f'import typing\ntyping.ForwardRef("print({GRAPH}) or int")._evaluate({{}}, {{}}, frozenset())\n'
    "return 1",
    "dispatch-evaluated": "import functools\n@functools.singledispatch\ndef first(x):\n    pass\n"
    f'def second(x: "print({GRAPH}) or int"):\n    pass\nfirst.register(second)\nreturn 1',
    "alias-reduced": "import collections, typing\nclass Held:\n    data = {}\n"
    "alias = type(typing.List[int])(Held, ('open',), name='__builtins__')\ntry:\n"
    "    collections.UserDict.copy(alias)\nexcept AttributeError as error:\n    return error.obj(inputs).read()",
    "type-made": "made = type('Made', (), {'__getattr__': lambda self, name: open(inputs).read()})\n"
    "return made().anything",
    "type-of-type": "made = type(type(1))('Made', (), {'__getattr__': lambda self, name: open(inputs).read()})\n"
    "return made().anything",
    "metaclass": "class Maker(type):\n    def __call__(cls):\n        return open(inputs).read()\n"
    "class Made(metaclass=Maker):\n    pass\nreturn Made()",
    "print-to-a-file": "print('overwritten', file=open(inputs, 'a'))\nreturn open(inputs).read()",
}
HANDLER = {
    "method-globals": "return trace.get_spans.__func__.__globals__['sys'].executable",
    "awaitable-frame": "frame = trace.get_spans().__await__().gi_frame\nreturn frame.f_globals['sys'].executable",
    "awaitable-frame-getattr": "running = getattr(trace.get_spans(), '__aw' + 'ait__')()\n"
    "return getattr(getattr(running, 'gi_fr' + 'ame'), 'f_globals')['sys'].executable",
    "await-inside": "async def work():\n    return task.cr_frame.f_back\ntask = work()\n"
    "return (await task).f_back.f_globals['sys'].executable",
    "traceback-of-ours": "try:\n    await trace.get_spans(5)\nexcept TypeError as error:\n"
    "    return error.__traceback__.tb_next.tb_frame.f_globals['sys'].executable",
    "span-class": "return type(trace).get_spans.__globals__['sys'].executable",
    "span-format": "return '{0.get_spans.__func__.__globals__[sys].executable}'.format(trace)",
}

REBOUND = [
    "_getattr_ = len",
    "_write_ = lambda given: given",
    "__builtins__ = {}",
    "__metaclass__ = object",
    "super = len",
    "import math as _getattr_",
    "from math import pi as _getattr_",
    "def _getattr_(given, name):\n    return given",
    "class _getattr_:\n    pass",
    "async def _getattr_(given):\n    pass",
    "def harmless(_getattr_):\n    pass",
    "harmless = lambda *, _getattr_: 1",
    "harmless = lambda *_getattr_: 1",
    "harmless = lambda **_getattr_: 1",
    "for _getattr_ in []:\n    pass",
    "harmless = [1 for _getattr_ in []]",
    "harmless = (_getattr_ := 1)",
    "(harmless, [_getattr_]) = 1, [2]",
    "try:\n    pass\nexcept ValueError as _getattr_:\n    pass",
    "def harmless():\n    global _getattr_",
    "def harmless():\n    _write_ = 1\n    def inner():\n        nonlocal _write_",
    "_getattr_: int = 1",
    "_getattr_ += 1",
    "del _getattr_",
    "class Class:\n    def __getattribute__(self, name):\n        return 1",
    "class Class:\n    def __init_subclass__(cls):\n        return 1",
    "class Class:\n    __class__ = int",
    "class Class:\n    __slots__ = ()",
    "class Class(metaclass=type):\n    pass",
    "def __build_class__():\n    pass",
]


@dataclass(frozen=True)
class Prize:
    """What an attack is after."""

    path: Path

    def is_in(self, outcome: Outcome) -> bool:
        told = repr(outcome)
        return any(words in told for words in (IN_FILE, IN_ENVIRONMENT, sys.executable))


@pytest.fixture(scope="module")
def prize(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prize]:
    path = tmp_path_factory.mktemp("prize") / "file"
    path.write_text(IN_FILE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVALUATOR_SECRET", IN_ENVIRONMENT)
        yield Prize(path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local(prize: Prize) -> AsyncIterator[LocalRunner]:
    started = await LocalRunner.start(workers=1)
    try:
        yield started
    finally:
        await started.close()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runner(prize: Prize) -> AsyncIterator[RestrictedRunner]:
    started = await RestrictedRunner.start(workers=1)
    try:
        yield started
    finally:
        await started.close()


async def attack(runner: Runner, interface: Interface, body: str, prize: Prize) -> Outcome:
    heads: dict[Interface, str] = {
        "evaluate": "def evaluate(inputs, outputs, trace):",
        "handler": "async def handler(inputs, output, expected, metadata, trace):",
    }
    source = "\n    ".join([heads[interface], *body.splitlines()])
    given: list[Any] = [None, None] if interface == "evaluate" else [None, None, {}, []]
    [outcome] = await runner.execute(revision_of(source, interface), [call_of(str(prize.path), *given)], LIMITS)
    return outcome


class NamedAtRunTime(ast.NodeTransformer):
    """Turns `a.b` into `getattr(a, "b")`, which no look at the source can judge."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        return ast.Call(ast.Name("getattr", ast.Load()), [node.value, ast.Constant(node.attr)], [])


def named_at_run_time(body: str) -> str:
    """Return an attack with every attribute read by a name made at run time."""
    function = ast.parse("async def attack():\n" + textwrap.indent(body, "    ")).body[0]
    assert isinstance(function, ast.AsyncFunctionDef)
    statements = [NamedAtRunTime().visit(statement) for statement in function.body]
    return "\n".join(ast.unparse(ast.fix_missing_locations(statement)) for statement in statements)


@pytest.mark.parametrize("name", EVALUATE)
async def test_nothing_leads_out_of_evaluate(
    local: LocalRunner, runner: RestrictedRunner, prize: Prize, name: str
) -> None:
    plainly = await attack(local, "evaluate", EVALUATE[name], prize)
    assert prize.is_in(plainly), f"this attack proves nothing: {plainly}"
    outcome = await attack(runner, "evaluate", EVALUATE[name], prize)
    assert not prize.is_in(outcome)
    assert isinstance(outcome, Raised), outcome


@pytest.mark.parametrize("name", HANDLER)
async def test_nothing_leads_out_of_handler(
    local: LocalRunner, runner: RestrictedRunner, prize: Prize, name: str
) -> None:
    plainly = await attack(local, "handler", HANDLER[name], prize)
    assert prize.is_in(plainly), f"this attack proves nothing: {plainly}"
    outcome = await attack(runner, "handler", HANDLER[name], prize)
    assert not prize.is_in(outcome)
    assert isinstance(outcome, Raised), outcome


@pytest.mark.parametrize("name", [*EVALUATE, *HANDLER])
async def test_nothing_leads_out_by_attributes_named_at_run_time(
    runner: RestrictedRunner, prize: Prize, name: str
) -> None:
    interface: Interface = "evaluate" if name in EVALUATE else "handler"
    outcome = await attack(runner, interface, named_at_run_time({**EVALUATE, **HANDLER}[name]), prize)
    assert not prize.is_in(outcome)
    assert isinstance(outcome, Raised), outcome


@pytest.mark.parametrize("source", REBOUND)
async def test_the_names_of_the_guards_cannot_be_taken(runner: RestrictedRunner, source: str) -> None:
    inspection = await runner.inspect("python", source)
    assert inspection.defect is not None
    assert inspection.defect.kind == "sandbox-violation", inspection.defect
    assert inspection.defect.line is not None


async def test_the_runner_goes_on_with_the_same_processes(runner: RestrictedRunner, prize: Prize) -> None:
    processes = runner.zygote_pids
    await attack(runner, "evaluate", EVALUATE["open"], prize)
    assert await value_of(runner, "def evaluate(inputs, outputs, trace):\n    return inputs", 1) == 1
    assert runner.zygote_pids == processes
