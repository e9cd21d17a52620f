"""Read the settings for a command, with its options on top."""

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from assay.errors import ConfigurationError
from assay.settings import CONFIG_VARIABLE, DEFAULT_CONFIG, Settings

SECRETS = frozenset(
    name for name, field in Settings.model_fields.items() if name.endswith(("key", "url")) and field.default is None
)


def read_settings(**options: Any) -> Settings:
    """Return the settings; options that are None leave the decision to environment and file.

    Raises ConfigurationError naming each setting that cannot be used, with what was found and what is allowed.
    """
    given = {name: value for name, value in options.items() if value is not None}
    named = os.environ.get(CONFIG_VARIABLE)
    if named and not Path(named).is_file():
        raise ConfigurationError(f"{CONFIG_VARIABLE} names {named!r}, which is no file.")
    try:
        return Settings(**given)
    except ValidationError as error:
        raise ConfigurationError(" ".join(_sentence(problem, given) for problem in error.errors())) from None
    except SettingsError as error:
        lists = ", ".join(
            _variable(name) for name, field in Settings.model_fields.items() if "tuple" in str(field.annotation)
        )
        raise ConfigurationError(f'{error}. A list ({lists}) is written as JSON, like ["10.0.0.0/8"].') from error
    except ValueError as error:
        raise ConfigurationError(f"The settings file {named or DEFAULT_CONFIG} cannot be read: {error}.") from error


def _sentence(problem: ErrorDetails, given: dict[str, Any]) -> str:
    name = str(problem["loc"][0]) if problem["loc"] else "settings"
    if problem["type"] == "extra_forbidden":
        return f"There is no setting {name!r}; docs/settings.md lists those there are."
    place = f"--{name.replace('_', '-')}" if name in given else _variable(name)
    found = "" if name in SECRETS else f" (found {problem['input']!r})"
    said = 'A list is written as JSON, like ["this", "that"]' if problem["type"] == "tuple_type" else problem["msg"]
    return f"{place}: {said}{found}."


def _variable(name: str) -> str:
    return f"ASSAY_{name.upper()}"
