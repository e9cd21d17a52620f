"""The acceptance cases: read by area, with their build instructions carried out."""

import base64
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "acceptance" / "cases"
MEBIBYTE = 1024 * 1024
Case = dict[str, Any]
# Which of the outcomes that a case allows is ours, where it would rather have another: a dataclass becomes its plain
# value wherever it stands, as the tables of docs/writing-evaluators.md say.
OURS = {"CE-020": 1}


def cases_of(area: str) -> list[Case]:
    lines = (FOLDER / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    return [case for case in map(json.loads, lines) if case["area"] == area]


def name_of(case: Case) -> str:
    return f"{case['id']}-{case['fault']}"


def built(value: Any) -> Any:
    """Return a value with each `{"__repeat": text, "times": n}` in it carried out."""
    if isinstance(value, list):
        return [built(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, dict):
        if "__repeat" in value:
            return value["__repeat"] * value["times"]  # pyright: ignore[reportUnknownVariableType]
        return {key: built(inner) for key, inner in value.items()}  # pyright: ignore[reportUnknownVariableType]
    return value


def allowed(case: Case) -> list[Case]:
    """Return the outcomes of which one must be: ours, or the one that the case prefers, where it allows several."""
    expected = case["expect"]
    if expected["outcome"] != "one_of":
        return [expected]
    options, wanted = expected["options"], OURS.get(case["id"], expected.get("preferred_option"))
    return options if wanted is None else [options[wanted]]


def whole_of(expected: Case) -> list[Case]:
    """Return the traces that the expected file of an outcome describes, if it has one."""
    return json.loads((FOLDER / expected["file"]).read_bytes())["traces"] if "file" in expected else []


def requests_of(case: Case) -> list[Case]:
    return case["given"].get("requests", [case["given"]])


def body_of(request: Case) -> bytes:
    """Return the bytes that a request's instructions describe."""
    if "file" in request:
        return (FOLDER / request["file"]).read_bytes()
    if "body_gzip_of" in request:
        return gzip.compress(json.dumps(built(request["body_gzip_of"])).encode())
    if request.get("body_template") == "gzip of 1 GB of spaces":
        return _gzip_of_spaces(1024)
    if "body_text" in request:
        return request["body_text"].encode()
    if "body_b64" in request:
        return base64.b64decode(request["body_b64"])
    return json.dumps(built(request["body"])).encode()


def _gzip_of_spaces(mebibytes: int) -> bytes:
    """Return one gzip member; its blocks are all alike, so that compressing one makes all."""
    block = b" " * MEBIBYTE
    deflate = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    compressed = deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)
    checksum = 0
    for _ in range(mebibytes):
        checksum = zlib.crc32(block, checksum)
    end = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS).flush()
    trailer = checksum.to_bytes(4, "little") + (mebibytes * MEBIBYTE % 2**32).to_bytes(4, "little")
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + compressed * mebibytes + end + trailer
