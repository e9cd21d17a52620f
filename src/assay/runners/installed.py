"""Runners that other installed packages bring: an entry point of the group `assay.runners` names a factory of one."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, cast

from assay.errors import ConfigurationError
from assay.ports import CodeRunner

GROUP = "assay.runners"


async def start_installed(name: str, environment: Mapping[str, str], built_in: Sequence[str]) -> CodeRunner:
    """Start the installed runner of this name: its factory is awaited with the environment variables.

    Raises ConfigurationError when there is none, or what the package offers is no runner.
    """
    found = entry_points(group=GROUP)
    if name not in found.names:
        installed = ", ".join(sorted(found.names)) or "none"
        raise ConfigurationError(
            f"ASSAY_CODE_RUNNER is {name!r}, and there is no such runner; "
            f"built in are {', '.join(built_in)}; installed: {installed}."
        )
    entry = found[name]
    try:
        start = cast("Callable[[Mapping[str, str]], Awaitable[Any]]", entry.load())
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(f"The runner {name!r} ({entry.value}) cannot be loaded: {error}.") from error
    runner = await start(environment)
    if not isinstance(runner, CodeRunner):
        raise ConfigurationError(
            f"The runner {name!r} ({entry.value}) gave a {type(runner).__name__}, "
            "which has not all that assay.ports.CodeRunner asks for."
        )
    return runner
