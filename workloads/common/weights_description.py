"""The description of exported weights, `model.json`: what serving them requires, for any framework;
imports none.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from suite.errors import RequestError
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

WEIGHTS_FILE: Final = "model.safetensors"
DESCRIPTION_FILE: Final = "model.json"


class WeightsDescription(Protocol):
    """A frozen dataclass that names its workload."""

    @property
    def workload(self) -> str:
        """The workload that the weights belong to."""


D = TypeVar("D", bound=WeightsDescription)


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedWorkload:
    """The minimal content of a description."""

    workload: str


def write_weights_description(description: WeightsDescription, folder: Path) -> None:
    """Write a description in the form that `read_weights_description` reads."""
    # a Protocol cannot declare that it is a dataclass
    table = asdict(description)  # type: ignore[call-overload]
    (folder / DESCRIPTION_FILE).write_text(
        json.dumps(table, indent=2, sort_keys=True) + "\n", "utf-8"
    )


def read_weights_description(folder: Path, kind: type[D], name: str) -> D:
    """Read the description of exported weights; RequestError if they belong to another workload."""
    path = folder / DESCRIPTION_FILE
    try:
        found = read_untrusted_file(path, msgspec.json.Decoder(DescribedWorkload).decode).workload
        if found != name:
            raise RequestError(f"checkpoint {folder}: its workload is {found}, not {name}")
        return read_untrusted_file(path, msgspec.json.Decoder(kind).decode)
    except UnreadableError as error:
        raise RequestError(
            f"checkpoint {folder}: no readable {DESCRIPTION_FILE} of {name} ({error.reason})"
        ) from error
