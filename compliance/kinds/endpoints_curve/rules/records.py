"""Check the summary of a point that podium measured against the records beside it."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from compliance.kinds.endpoints.documents.result_summary import ResultSummary
from compliance.kinds.endpoints_curve.documents.point_records import PointRecords
from compliance.rules import rule
from compliance.verdict import About, Fault

TOLERANCE: Final = 1e-9
"""Rounding error of statistics that another machine computes."""
RECORDED_FIELDS: Final = (
    "n_samples_issued",
    "n_samples_completed",
    "n_samples_failed",
    "duration_ns",
    "legacy_loadgen_window_duration_ns",
    "complete",
    "qps",
    "tps",
    "ttft",
    "tpot",
    "latency",
    "output_sequence_lengths",
    "input_sequence_lengths",
    "run_config",
)
"""Fields of a summary that follow from the records."""
UNRECORDED_PATHS: Final = ("run_config.warmup",)
"""Paths below them that do not."""


@rule("endpoints.records", PointRecords, About.SCORE, doubt="the figure")
def records(found: PointRecords) -> Iterator[Fault]:
    """The summary of a point that podium measured is the one that its records give: LoadGen's log,
    and the times and lengths of all answers, which lie beside it in `loadgen/`. The first
    difference of each series is told.

    Source: house rule: podium submit computes result_summary.json from the files that it puts
    there; the official checker does not open them.
    Advice: build the tree again with podium submit, from the run's own files.
    """
    if found.problem:
        yield found.build_fault(found.problem, "the records of the run")
    if found.recomputed is None or found.stated is None:
        return
    stated, recomputed = (flatten_summary(each) for each in (found.stated, found.recomputed))
    for field in RECORDED_FIELDS:
        for path, told, wanted in find_unrecorded_value(stated[field], recomputed[field]):
            required = "none by the records"
            if wanted is not None:
                required = f"{wanted}, from the records"
            yield found.build_fault(f"{path} {told}", required, file=found.summary_file)


def find_unrecorded_value(
    stated: Mapping[str, Any], recomputed: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the first path with another value, and both values; nothing if all are the same."""
    for path in sorted({*stated, *recomputed}):
        told, wanted = stated.get(path), recomputed.get(path)
        if not is_same(told, wanted):
            yield path, told, wanted
            return


def flatten_summary(summary: ResultSummary) -> Mapping[str, Mapping[str, Any]]:
    """Return the values of a summary by the path of their keys, for each of its fields."""
    document = msgspec.to_builtins(summary)
    return {
        field: {
            path: value
            for path, value in iterate_values(field, document[field])
            if not path.startswith(UNRECORDED_PATHS)
        }
        for field in RECORDED_FIELDS
    }


def iterate_values(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values below a path, but for those that are null."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from iterate_values(f"{path}.{key}", each)
    elif isinstance(value, list | tuple):
        for place, each in enumerate(value):
            yield from iterate_values(f"{path}.{place}", each)
    elif value is not None:
        yield path, value


def is_same(told: Any, wanted: Any) -> bool:
    """Return whether two values are equal, numbers but for rounding."""
    if all(isinstance(each, int | float) for each in (told, wanted)):
        return math.isclose(told, wanted, rel_tol=TOLERANCE)
    return bool(told == wanted)
