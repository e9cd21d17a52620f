"""An evaluator as a file: read it, have the engine look at it, and make the revision that checks name."""

import time
from dataclasses import dataclass
from pathlib import Path

from assay.batch.load import LOCAL_PROJECT
from assay.domain.evaluator import Interface, Language, Revision
from assay.engine import Engine
from assay.errors import InvalidInputError

LANGUAGES: dict[str, Language] = {".py": "python", ".js": "javascript", ".mjs": "javascript", ".ts": "typescript"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorFile:
    """What an evaluator's file says."""

    path: Path
    language: Language
    source: str


def read_evaluator(path: Path) -> EvaluatorFile:
    """Read the file; raise InvalidInputError when it has another ending, or cannot be read as text."""
    language = LANGUAGES.get(path.suffix)
    if language is None:
        raise InvalidInputError(
            f"{path} ends in {path.suffix or 'nothing'!r}; evaluators end in {', '.join(LANGUAGES)}."
        )
    try:
        return EvaluatorFile(path=path, language=language, source=path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"Cannot read {path}: {error}") from error


async def vetted_revision(
    engine: Engine, file: EvaluatorFile, *, interface: Interface | None, threshold: float
) -> Revision:
    """Return the revision of this file; raise InvalidInputError, naming file and line, when it cannot be run.

    `interface` is None where it is to be seen from the code; scores below `threshold` fail.
    """
    try:
        seen = await engine.vet(file.language, file.source, interface)
    except InvalidInputError as error:
        place = f"{file.path}, line {error.line}" if error.line else str(file.path)
        raise InvalidInputError(f"{place}: {error}") from error
    return Revision(
        id=str(file.path),
        evaluator_id=str(file.path),
        project_id=LOCAL_PROJECT,
        number=1,
        created_at_ns=time.time_ns(),
        evaluator_name=file.path.stem,
        kind="code",
        language=file.language,
        interface=seen,
        source=file.source,
        threshold=threshold,
    )
