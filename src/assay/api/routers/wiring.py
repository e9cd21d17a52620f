"""What route functions are handed: services, the caller's project, and ids from the path."""

from typing import Annotated

from fastapi import Depends, Path

from assay.api.auth import actor_of, project_of
from assay.api.services import Services, services_of
from assay.errors import NotFoundError

LONGEST_ID = 200


def _named(identifier: Annotated[str, Path(alias="id")]) -> str:
    """Return an id that could exist; databases cannot even be asked for some others."""
    if "\0" in identifier or len(identifier) > LONGEST_ID:
        raise NotFoundError("There is nothing with this id.")
    return identifier


Wired = Annotated[Services, Depends(services_of)]
Project = Annotated[str, Depends(project_of)]
Actor = Annotated[str, Depends(actor_of)]
Id = Annotated[str, Depends(_named)]
