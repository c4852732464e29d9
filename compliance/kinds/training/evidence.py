"""Recognise training logs: by their dialect, or else by date and benchmark.

A log in v0.7's dialect does not name its round; its date or else its benchmark indicates it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compliance.documents.timestamps import format_utc_day
from compliance.kinds.training.recognition import (
    TrainingLogEvidence,
    can_belong_to_round,
    choose_training_round,
    is_of_other_benchmark,
    is_round_excluded,
    list_candidate_rounds,
    normalise_benchmark_name,
)
from compliance.logs.source_file import format_excerpt
from compliance.recognition.first_record import LOADGEN_EVENT_PATTERN
from compliance.recognition.round_evidence import FileHead, RoundEvidence

RECORD_TIME_PATTERN: Final = re.compile(rb'"time_(ms|s)": ?(\d{1,13})')
BENCHMARK_PATTERN: Final = re.compile(
    rb'"key": ?"submission_benchmark", ?"value": ?"([^"\\]{1,60})"'
)

EARLIEST_MLLOG_TIME_S: Final = 1_569_888_000
"""October 2019, before any round used this dialect: an earlier clock was never set and is no
evidence.
"""


@dataclass(frozen=True, slots=True)
class TrainingLogs:
    """Facts of training logs that could belong to several rounds."""

    logs: tuple[TrainingLogEvidence, ...]

    def merge_evidence(self, evidence: Sequence[RoundEvidence]) -> RoundEvidence:
        """Merge the evidence of several training logs."""
        found = [(each, each.logs) for each in evidence if isinstance(each.logs, TrainingLogs)]
        logs = tuple(log for _, those in found for log in those.logs)
        newest, _ = max(found, key=lambda pair: pair[1].logs[0].began_s or 0)
        return newest._replace(
            round=choose_training_round(logs),
            logs=TrainingLogs(logs),
            indicated_by=(
                f"{len(logs)} training logs, among them"
                f" {newest.indicated_by.removeprefix('a training log ')}"
            ),
        )

    def can_belong_to_round(self, name: str) -> bool:
        """Return whether the logs may belong to a round."""
        return can_belong_to_round(name, self.logs)

    def is_round_excluded(self, name: str | None) -> bool:
        """Return whether the logs cannot belong to a round whose days and benchmarks are known."""
        return is_round_excluded(name, self.logs)

    def list_candidate_rounds(self) -> tuple[str, ...]:
        """Return the rounds that the logs may belong to in chronological order."""
        return list_candidate_rounds(self.logs)

    def has_other_benchmark(self) -> bool:
        """Return whether a log names a benchmark other than its folder's."""
        return any(map(is_of_other_benchmark, self.logs))


def read_training_evidence(file: FileHead) -> RoundEvidence | None:
    """Read the dialect of a training log, or its date and benchmark."""
    head = file.record
    if file.path.suffix == ".json":
        return None
    if head.startswith((b":::MLL ", b"MLPerf: ")):
        return RoundEvidence("training-v0.6", "a training log in v0.6's format")
    if head.startswith(b":::MLPv"):
        return RoundEvidence(None, f"a training log that begins with '{format_excerpt(head[:12])}'")
    if not head.startswith(b":::MLLOG") or LOADGEN_EVENT_PATTERN.search(head):
        return None
    return parse_training_evidence(file)


def parse_training_evidence(file: FileHead) -> RoundEvidence:
    """Read the date and benchmark of a training log in v0.7's dialect, which all later rounds
    share. A record within a JSON string has its quotes escaped.
    """
    head = file.record.replace(b'\\"', b'"')
    times = [
        int(number) // (1 if unit == b"s" else 1000)
        for unit, number in RECORD_TIME_PATTERN.findall(head)
    ]
    began = next((seconds for seconds in times if seconds >= EARLIEST_MLLOG_TIME_S), None)
    benchmark = BENCHMARK_PATTERN.search(head)
    name = ""
    if benchmark:
        name = format_excerpt(benchmark[1])
    indicated_by = (
        "a training"
        f" log{f' of {name}' if name else ''}{f' from {format_utc_day(began)}' if began else ''}"
    )
    unset = bool(times) and began is None
    folder = str(file.path.parent)
    logs = (TrainingLogEvidence(began, normalise_benchmark_name(name), unset, folder),)
    return RoundEvidence(
        choose_training_round(logs),
        indicated_by + " with a clock that was not set" * unset,
        sure=began is not None,
        logs=TrainingLogs(logs),
    )
