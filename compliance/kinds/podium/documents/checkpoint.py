"""Read the record of an exported checkpoint; the weights themselves are never packed."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Final

import msgspec

from compliance.documents.base import FileDocument
from compliance.kinds.podium.documents.training import TrainingLog
from compliance.logs.source_file import SourceFile, read_json_document
from suite.records import CheckpointRecord
from suite.rounds import Round

CHECKPOINT_FILE_DECODER: Final = msgspec.json.Decoder(CheckpointRecord)
CHECKPOINT_RECORD_FIELDS: Final = frozenset(field.name for field in fields(CheckpointRecord))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFile(FileDocument):
    """`checkpoints/<workload>/<sha256>/record.json`."""

    document_name: ClassVar[str] = "the record of a checkpoint"

    record: CheckpointRecord
    logs: Sequence[TrainingLog]
    """All training logs that were read."""
    round: Round


def read_checkpoint_file(
    source: SourceFile, logs: Sequence[TrainingLog], round: Round
) -> CheckpointFile | None:
    """Read a record; None with a parse error if it cannot be read."""
    record = read_json_document(source, CHECKPOINT_FILE_DECODER, CHECKPOINT_RECORD_FIELDS)
    if not record:
        return None
    return CheckpointFile(source=source, record=record, logs=logs, round=round)
