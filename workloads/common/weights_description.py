"""The description of exported weights, `model.json`: what serving them requires, for any framework;
imports none.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from suite.errors import RequestError
from suite.files.untrusted_files import UnreadableError, read

WEIGHTS: Final = "model.safetensors"
DESCRIPTION: Final = "model.json"


class Described(Protocol):
    """A frozen dataclass that names its workload."""

    @property
    def workload(self) -> str:
        """The workload that the weights belong to."""


D = TypeVar("D", bound=Described)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The minimal content of a description."""

    workload: str


def write(description: Described, folder: Path) -> None:
    """Write a description in the form that `describe` reads."""
    table = asdict(description)  # type: ignore[call-overload]  # a Protocol cannot declare that it is a dataclass
    (folder / DESCRIPTION).write_text(json.dumps(table, indent=2, sort_keys=True) + "\n", "utf-8")


def describe(folder: Path, kind: type[D], name: str) -> D:
    """Read the description of exported weights; RequestError if they belong to another workload."""
    path = folder / DESCRIPTION
    try:
        found = read(path, msgspec.json.Decoder(Owner).decode).workload
        if found != name:
            raise RequestError(f"checkpoint {folder}: its workload is {found}, not {name}")
        return read(path, msgspec.json.Decoder(kind).decode)
    except UnreadableError as error:
        raise RequestError(
            f"checkpoint {folder}: no readable {DESCRIPTION} of {name} ({error.reason})"
        ) from error
