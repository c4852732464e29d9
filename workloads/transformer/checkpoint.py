"""The description of exported weights, for any framework: the network's shape and its
vocabulary.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from suite.errors import RequestError
from workloads.common import weights_description
from workloads.transformer.recipe import TransformerShape

TRANSFORMER_NAME: Final = "transformer"


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerDescription:
    """What a server needs to know about exported weights."""

    workload: str
    shape: TransformerShape
    vocabulary_sha256: str
    """Hash of the vocabulary file that defines the subtoken ids."""


def read_transformer_description(
    folder: Path, vocabulary_sha256: str, vocabulary: Path
) -> TransformerDescription:
    """Read the description of exported weights; RequestError if they belong to another workload or
    vocabulary.
    """
    found = weights_description.read_weights_description(
        folder, TransformerDescription, TRANSFORMER_NAME
    )
    if found.vocabulary_sha256 != vocabulary_sha256:
        raise RequestError(
            f"checkpoint {folder}: it was trained with a different vocabulary than {vocabulary}"
        )
    return found
