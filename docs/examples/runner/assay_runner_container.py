"""A runner for Assay: Python in a container, a fresh one for every batch.

Chosen by ASSAY_CODE_RUNNER=container. CONTAINER_COMMAND is what starts a Python that reads its program from `-c` and a
batch from standard input.
"""

import asyncio
import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from assay.domain.evaluator import ENTRY_POINTS, Revision
from assay.domain.outcome import Call, Defect, Exceeded, Inspection, Limits, Outcome, Raised, Returned, Unavailable
from assay.errors import SandboxUnavailableError

COMMAND = "docker run --rm --interactive --network none --memory 512m python:3.12-slim python"

# Runs inside the container. Its answer leaves on a descriptor of its own, where nothing that is printed can reach it.
PROGRAM = """
import ast, asyncio, contextlib, inspect, io, json, os, sys
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
batch = json.load(sys.stdin)

def line_of(error):
    lines = [step.lineno for step in __import__("traceback").extract_tb(error.__traceback__)
             if step.filename == "evaluator.py"]
    return lines[-1] if lines else None

class Trace:
    def __init__(self, spans):
        self.spans = spans
    async def get_spans(self, span_type=None):
        wanted = [span_type] if isinstance(span_type, str) else span_type
        return [span for span in self.spans if wanted is None or span["type"] in wanted]

async def finished(value):
    return await value

def evaluated(arguments):
    logs, told = io.StringIO(), {}
    with contextlib.redirect_stdout(logs), contextlib.redirect_stderr(logs):
        try:
            module = {"__name__": "evaluator"}
            exec(compile(batch["source"], "evaluator.py", "exec"), module)
            values = [json.loads(argument) for argument in arguments]
            if batch["entry"] == "handler":
                values[-1] = Trace(values[-1])
            value = module[batch["entry"]](*values)
            told["value"] = asyncio.run(finished(value)) if inspect.isawaitable(value) else value
            json.dumps(told, allow_nan=False)
        except BaseException as error:
            told = {"type": type(error).__name__, "message": str(error), "line": line_of(error)}
    return {**told, "logs": logs.getvalue()}

def inspected():
    try:
        tree = ast.parse(batch["source"], "evaluator.py")
    except SyntaxError as error:
        return {"message": error.msg, "line": error.lineno}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {"names": {node.name: len(node.args.args) for node in tree.body if isinstance(node, functions)}}

told = [evaluated(call) for call in batch["calls"]] if "calls" in batch else inspected()
json.dump(told, answer)
answer.close()
os._exit(0)
"""


async def start(environment: Mapping[str, str]) -> "ContainerRunner":
    """Make the runner: this is what the entry point names, and the environment is where its settings come from."""
    return ContainerRunner(shlex.split(environment.get("CONTAINER_COMMAND", COMMAND)))


class ContainerRunner:
    """Runs Python evaluators, each batch in a container of its own."""

    languages = ("python",)

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    @property
    def description(self) -> str:
        return "container"

    async def execute(self, revision: Revision, calls: Sequence[Call], limits: Limits) -> list[Outcome]:
        if not calls:
            return []
        batch: dict[str, Any] = {
            "source": revision.source,
            "entry": ENTRY_POINTS[revision.interface or "evaluate"],
            "calls": [[argument.decode() for argument in call.arguments] for call in calls],
        }
        try:
            async with asyncio.timeout(limits.wall_s * len(calls)):
                told = json.loads(await self._run(batch))
        except TimeoutError:
            if len(calls) == 1:
                return [Exceeded(budget="wall", message=f"the evaluation ran longer than {limits.wall_s:g} s")]
            # One of them hung, and it is not known which: run each alone.
            return [outcome for call in calls for outcome in await self.execute(revision, [call], limits)]
        except (OSError, ValueError) as error:
            # Not the author's fault: it will be tried again.
            return [Unavailable(cause=f"the container did not answer: {error}") for _ in calls]
        return [_outcome(each, limits) for each in told]

    async def inspect(self, language: str, source: str, project_id: str = "") -> Inspection:
        try:
            told = json.loads(await self._run({"source": source}))
        except (OSError, ValueError) as error:
            raise SandboxUnavailableError(f"the container did not answer: {error}") from error
        if "names" in told:
            return Inspection(names=told["names"])
        return Inspection(names={}, defect=Defect(kind="syntax-error", message=told["message"], line=told["line"]))

    async def unready(self) -> str | None:
        try:
            await self.inspect("python", "")
        except SandboxUnavailableError as error:
            return str(error)
        return None

    async def close(self) -> None:
        """Do nothing: no container outlives its batch."""

    async def _run(self, batch: dict[str, Any]) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            "-c",
            PROGRAM,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            answer, _ = await process.communicate(json.dumps(batch).encode())
            return answer
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


def _outcome(told: dict[str, Any], limits: Limits) -> Outcome:
    logs = str(told["logs"])[: limits.log_bytes]
    if "value" in told:
        return Returned(value=told["value"], logs=logs)
    return Raised(kind="script-raised", type=told["type"], message=told["message"], line=told["line"], logs=logs)
