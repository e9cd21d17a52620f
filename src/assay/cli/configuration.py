"""Read the settings for a command, with its options on top."""

from typing import Any

from pydantic import ValidationError

from assay.errors import ConfigurationError
from assay.settings import Settings


def read_settings(**options: Any) -> Settings:
    """Return the settings; options that are None leave the decision to environment and file.

    Raises ConfigurationError naming each setting that cannot be used, with what was found and what is allowed.
    """
    given = {name: value for name, value in options.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        lines = [
            f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']} (found {problem['input']!r})"
            if problem["loc"] != ("admin_key",)
            else f"admin_key: {problem['msg']}"
            for problem in error.errors()
        ]
        raise ConfigurationError("; ".join(lines)) from None
    except ValueError as error:
        raise ConfigurationError(f"The settings file cannot be read: {error}") from error
