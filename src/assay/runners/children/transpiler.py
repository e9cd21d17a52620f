"""TypeScript to JavaScript through OXC, the WebAssembly module that quickjs-rs ships.

The module is compiled once, before anything is confined; a confined child only runs it. quickjs-rs' own loader cannot
be used for that: its engine compiles with threads, which a process that forks must not have, and reserves 4 GiB of
address space for each instance, which the memory limit of a child refuses.
"""

from importlib.util import find_spec
from pathlib import Path
from typing import cast

import wasmtime

_STRIP_TYPES = 1 << 0 | 1 << 8
_OK, _UNCHANGED = 0, 1
_NAME = b"evaluator.ts"
# OXC joins all that it finds wrong; the first thing is enough, and there can be thousands.
_AND = "; "


class RefusedSyntaxError(Exception):
    """OXC does not take this for TypeScript; the message is its own, without a place."""


class Transpiler:
    """Makes JavaScript of TypeScript. An instance belongs to one child, whose source may leave it in any state."""

    def __init__(self) -> None:
        config = wasmtime.Config()
        config.parallel_compilation = False
        config.signals_based_traps = False
        config.memory_reservation = 0
        config.memory_guard_size = 0
        config.memory_reservation_for_growth = 0
        self._engine = wasmtime.Engine(config)
        self._module = wasmtime.Module(self._engine, _wasm())
        self._linker = wasmtime.Linker(self._engine)
        self._linker.define_wasi()
        self._begin()

    def _begin(self) -> None:
        self._store = wasmtime.Store(self._engine)
        self._store.set_wasi(wasmtime.WasiConfig())
        self._exports = self._linker.instantiate(self._store, self._module).exports(self._store)
        self._memory = cast("wasmtime.Memory", self._exports["memory"])

    def __call__(self, source: str) -> str:
        """Return the JavaScript. Raises RefusedSyntaxError."""
        data = source.encode()
        name, text = self._place(_NAME), self._place(data)
        try:
            status = self._call("transform", name, len(_NAME), text, len(data), _STRIP_TYPES)
            if status == _UNCHANGED:
                return source
            if status == _OK:
                return self._taken("result")
            raise RefusedSyntaxError(self._taken("error").partition(": ")[2].partition(_AND)[0])
        except (wasmtime.Trap, wasmtime.WasmtimeError) as error:
            self._begin()
            raise RefusedSyntaxError("the source is nested too deeply, or is more than can be translated") from error

    def _call(self, name: str, *arguments: int) -> int:
        function = cast("wasmtime.Func", self._exports[f"qjst_{name}"])
        return cast("int", function(self._store, *arguments))

    def _place(self, data: bytes) -> int:
        address = self._call("alloc", len(data))
        self._memory.write(self._store, data, address)
        return address

    def _taken(self, what: str) -> str:
        start, length = self._call(f"{what}_ptr"), self._call(f"{what}_len")
        return self._memory.read(self._store, start, start + length).decode("utf-8", "replace")


def _wasm() -> bytes:
    spec = find_spec("quickjs_rs")
    if spec is None or spec.origin is None:
        raise ImportError("quickjs-rs is not installed")
    return Path(spec.origin).with_name("_transform.wasm").read_bytes()
