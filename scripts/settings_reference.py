"""Write docs/settings.md from the Settings class, or check that it is up to date (--check)."""

import sys
from pathlib import Path

from pydantic import AliasChoices
from pydantic_core import PydanticUndefined

from assay.settings import Settings

TARGET = Path(__file__).parent.parent / "docs" / "settings.md"
HEAD = """# Settings

Each can be given as an environment variable, or under its lower-case name without `ASSAY_` in `assay.toml` (or the
file that `ASSAY_CONFIG` names); `assay serve` has options for the first few. Options win over variables, variables
over the file. This page is generated from `src/assay/settings.py`.

| variable | default | what it decides |
| --- | --- | --- |
"""


def render() -> str:
    """Return the page."""
    rows: list[str] = []
    for name, field in Settings.model_fields.items():
        default = "" if field.default in (None, PydanticUndefined) else field.default
        shown = f"`{list(default)}`" if isinstance(default, tuple) else f"`{default}`" if default != "" else "unset"
        alias = field.validation_alias
        variable = alias.choices[0] if isinstance(alias, AliasChoices) else f"ASSAY_{name.upper()}"
        rows.append(f"| `{variable}` | {shown} | {field.description} |")
    return HEAD + "\n".join(rows) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        if not TARGET.exists() or TARGET.read_text() != render():
            sys.exit("docs/settings.md is out of date: run make fmt")
    else:
        TARGET.write_text(render())
