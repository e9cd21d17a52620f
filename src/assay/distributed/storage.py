"""Files on disk and in object stores, through the one client that Daft has for both."""

import glob
import os
import secrets
import shutil
from pathlib import Path
from typing import IO, BinaryIO, cast

import daft
from daft.exceptions import DaftCoreException
from daft.expressions import ExpressionsProjection
from daft.functions import upload
from daft.recordbatch import RecordBatch

from assay.errors import InvalidInputError

BUFFER_BYTES = 1024 * 1024


def is_remote(place: str) -> bool:
    """Tell whether this is a URL of an object store; anything else is a path on disk."""
    return "://" in place


def file_name(place: str) -> str:
    """Return the last piece of a path or URL."""
    return place.rsplit("/", 1)[-1] if is_remote(place) else Path(place).name


def matching(pattern: str) -> list[tuple[str, int]]:
    """Return the files that a path, a URL or a glob names, each absolute and with its size in bytes.

    Raises InvalidInputError when there are none, or when they cannot be listed.
    """
    found = _remote_files(pattern) if is_remote(pattern) else _local_files(pattern)
    if not found:
        raise InvalidInputError(f"No file is at {pattern}.", field="--input")
    return found


def _local_files(pattern: str) -> list[tuple[str, int]]:
    if Path(pattern).is_dir():
        raise InvalidInputError(f"{pattern} is a folder; name its files, as in {pattern}/*.parquet.", field="--input")
    paths = [pattern] if Path(pattern).is_file() else glob.glob(pattern, recursive=True)
    return [(os.path.abspath(path), os.path.getsize(path)) for path in paths if Path(path).is_file()]


def _remote_files(pattern: str) -> list[tuple[str, int]]:
    try:
        listed = daft.from_glob_path(pattern).to_pydict()
    except DaftCoreException as error:
        # Daft has no error of its own for a glob that matches nothing.
        if "at least 1 MicroPartition" in str(error):
            return []
        raise InvalidInputError(f"{pattern} cannot be listed: {error}", field="--input") from error
    return list(zip(listed["path"], listed["size"], strict=True))


def open_input(place: str) -> BinaryIO:
    """Open a file for reading; raise FileNotFoundError or another OSError when that cannot be done."""
    return cast("BinaryIO", daft.open_file(place, "rb", buffering=BUFFER_BYTES))


def put(place: str, content: IO[bytes]) -> None:
    """Store the content, from its beginning, so that the file is there whole or not at all."""
    content.seek(0)
    if is_remote(place):
        uploaded = RecordBatch.from_pydict({"content": [content.read()], "place": [place]})
        uploaded.eval_expression_list(ExpressionsProjection([upload(daft.col("content"), daft.col("place"))]))
        return
    target = Path(place)
    target.parent.mkdir(parents=True, exist_ok=True)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with unfinished.open("xb") as copy:
            shutil.copyfileobj(content, copy, BUFFER_BYTES)
            copy.flush()
            os.fsync(copy.fileno())
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
