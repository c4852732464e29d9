"""The description of exported weights, for any framework: the network's shape and its
vocabulary.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.errors import RequestError
from workloads.common import weights_description
from workloads.transformer.recipe import Shape

NAME: Final = "transformer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What a server needs to know about exported weights."""

    workload: str
    shape: Shape
    vocabulary_sha256: str
    """Hash of the vocabulary file that defines the subtoken ids."""


def describe(folder: Path, vocabulary_sha256: str, vocabulary: Path) -> Description:
    """Read the description of exported weights; RequestError if they belong to another workload or
    vocabulary.
    """
    found = weights_description.describe(folder, Description, NAME)
    if found.vocabulary_sha256 != vocabulary_sha256:
        raise RequestError(
            f"checkpoint {folder}: it was trained with a different vocabulary than {vocabulary}"
        )
    return found
