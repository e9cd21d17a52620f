"""A batch over many files: find them, cut them into parts, and have Daft's workers evaluate each."""

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, TypeAlias

import daft
import msgspec
from daft.errors import UDFException
from daft.exceptions import DaftCoreException

from assay.distributed import UNTRACKED
from assay.distributed.parquet import UNREADABLE
from assay.distributed.parts import InputFile, InputFormat, Part, parts_of
from assay.distributed.results import Counts
from assay.distributed.storage import matching
from assay.distributed.task import Task
from assay.distributed.worker import PartReport, Worker
from assay.errors import BatchStoppedError, InvalidInputError

RunnerName: TypeAlias = Literal["native", "ray"]
FORMATS: dict[str, InputFormat] = {".parquet": "parquet", ".pq": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}
MOST_PARTITIONS = 1000
OBJECT_STORE_BYTES = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """Where the workers are: processes here, or Ray's actors, `ray_address` being None for a Ray that is started here.

    `concurrency` is how many there are; None for one per core.
    """

    runner: RunnerName
    ray_address: str | None = None
    concurrency: int | None = None


class _Plan(msgspec.Struct, kw_only=True):
    """The parts of a file, or why it cannot be read."""

    source: str
    parts: list[Part] = []
    problem: str | None = None


def run(
    patterns: Sequence[str], input_format: InputFormat | None, task: Task, cluster: Cluster
) -> Iterator[PartReport]:
    """Yield how each part went of the files that paths, URLs and globs name; one that cannot be read has a problem.

    Raises InvalidInputError when one names none, or a file whose ending does not tell its format; BatchStoppedError
    when workers cannot be started or die: what is written by then is kept.
    """
    try:
        with _workers(cluster) as concurrency:
            parts: list[str] = []
            for plan in _planned(_found(patterns, input_format), cluster):
                parts += (msgspec.json.encode(part).decode() for part in plan.parts)
                if plan.problem is not None:
                    yield PartReport(source=plan.source, number=0, counts=Counts(), problem=plan.problem)
            if parts:
                yield from _evaluated(parts, task, cluster, concurrency)
    except (DaftCoreException, UDFException, RuntimeError, ConnectionError) as error:
        raise BatchStoppedError(f"The workers stopped: {error}") from error


@contextmanager
def _workers(cluster: Cluster) -> Generator[int]:
    """Connect to the cluster and yield how many workers there are to be."""
    if cluster.runner == "native":
        daft.set_runner_native()
        yield cluster.concurrency or len(os.sched_getaffinity(0))
        return
    ray: Any = import_module("ray")
    address = cluster.ray_address or os.environ.get("RAY_ADDRESS")
    # Only names and counts pass through its object store.
    own = {} if address else {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    ray.init(address=address, runtime_env={"env_vars": UNTRACKED}, log_to_driver=False, configure_logging=False, **own)
    try:
        daft.set_runner_ray(noop_if_initialized=True)
        yield cluster.concurrency or max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        ray.shutdown()


def _found(patterns: Sequence[str], input_format: InputFormat | None) -> list[InputFile]:
    """Return the files that these name, each once, in order of their names."""
    sizes = {source: size for pattern in patterns for source, size in matching(pattern)}
    return [
        InputFile(source=source, format=input_format or _format_of(source), size=size)
        for source, size in sorted(sizes.items())
    ]


def _format_of(source: str) -> InputFormat:
    known = FORMATS.get(os.path.splitext(source)[1].lower())
    if known is None:
        raise InvalidInputError(
            f"{source} ends in none of {', '.join(FORMATS)}; say what it is with --input-format.", field="--input"
        )
    return known


def _planned(files: Sequence[InputFile], cluster: Cluster) -> Iterator[_Plan]:
    plan = daft.func(_plan, return_dtype=daft.DataType.string())
    encoded = [msgspec.json.encode(file).decode() for file in files]
    for text in _mapped(plan, encoded, cluster):
        yield msgspec.json.decode(text, type=_Plan)


def _plan(encoded: str) -> str:
    file = msgspec.json.decode(encoded, type=InputFile)
    try:
        plan = _Plan(source=file.source, parts=parts_of(file))
    except (OSError, UNREADABLE, DaftCoreException) as error:
        plan = _Plan(source=file.source, problem=str(error))
    return msgspec.json.encode(plan).decode()


def _evaluated(parts: list[str], task: Task, cluster: Cluster, concurrency: int) -> Iterator[PartReport]:
    workers = min(concurrency, len(parts))
    spread = daft.cls(Worker, cpus=1, use_process=cluster.runner == "native", max_concurrency=workers)(task)
    for text in _mapped(spread.evaluate, parts, cluster):
        yield msgspec.json.decode(text, type=PartReport)


def _mapped(function: Any, values: list[str], cluster: Cluster) -> Iterator[str]:
    """Yield what the function makes of each value, as Daft has it."""
    frame: Any = daft.from_pydict({"value": values})  # pyright: ignore[reportUnknownMemberType]
    if cluster.runner == "ray":
        frame = frame.into_partitions(min(len(values), MOST_PARTITIONS))
    for row in frame.select(function(daft.col("value")).alias("made")).iter_rows():
        yield row["made"]
