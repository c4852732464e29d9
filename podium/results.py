"""`podium.load`: the results at a path as records and, with pandas installed, as a table.

The names in this module that `podium` exports are stable: fields are added, and neither renamed nor
removed. Files are untrusted: they are parsed, and nothing in them is unpickled or run.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import msgspec

from compliance.bundle.manifest import KNOWN_BUNDLE_FORMATS
from compliance.judge import Judge
from compliance.verdict import Severity, Verdict, compute_verdict
from submissions import compliance_check
from submissions.compare.compared_results import ComparisonSide, read_comparison_side
from submissions.compare.intervals import MIN_INTERVAL_RUNS, estimate_value_interval
from submissions.curves.curve import read_path_curves
from submissions.curves.point_scores import PointScore, iterate_point_scores
from submissions.pack.bundle import list_bundle_problems
from submissions.result_index import IndexedResult, find_requested_results, open_results
from submissions.score.score import Score
from suite.errors import JudgedError, MissingError, PodiumError
from suite.files.layout import MANIFEST_FILE
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.process.installation import format_install_command
from suite.rounds.compatibility import INFERENCE_HALF, TRAINING_HALF

if TYPE_CHECKING:
    import pandas

INTERVAL_CONFIDENCE: Final = 0.95
CURVE_HALF: Final = "curve"
"""Half of a point of MLPerf Endpoints, which is of no training and of no scenario."""
NOTEBOOK_EXTRA: Final = "notebook"
SPREAD_FIELDS: Final = ("accuracy", "target")
"""Fields with a value for each metric: a table has a column for each, such as `accuracy.top1`."""


class ManifestHeader(msgspec.Struct, frozen=True):
    """What tells the version of a bundle."""

    format: int = 0
    version: str = "?"


MANIFEST_HEADER_DECODER: Final = msgspec.json.Decoder(ManifestHeader)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecord:
    """One result: a training set, the runs of one scenario, or one point of a curve.

    A field that no file states is None, or empty.
    """

    source: str
    """The path that was loaded, as it was given."""
    folder: str
    """The result's folder, or the point's file, below that path; "." for the path itself."""
    verdict: str
    """The judge's: valid, not-converged, unknown, or broken: it violates a rule, or cannot be
    read.
    """
    errors: tuple[str, ...] = ()
    """What the judge objects to, a sentence each, or why it cannot be read; empty if valid. Files
    are named as `folder` is.
    """
    round: str = ""
    profile: str = ""
    division: str = ""
    org: str = ""
    system: str = ""
    accelerator: str | None = None
    accelerators: int | None = None
    """Of all nodes together; 0 if it ran on CPUs only."""
    nodes: int | None = None
    engine: str | None = None
    """The engine that served, or the framework that trained."""
    precision: str | None = None
    workload: str = ""
    half: str = ""
    """training, inference or curve."""
    scenario: str | None = None
    """LoadGen's name; None for a training set and for a point of a curve."""
    metric: str = ""
    value: float | None = None
    """In `unit`; None if too many runs failed for a mean, or if it cannot be read."""
    unit: str = ""
    """minutes, ns, samples/s, queries/s, tokens/s or samples/query."""
    low: float | None = None
    high: float | None = None
    """95 % interval of the value; None with fewer than three runs, or where one failed."""
    runs: tuple[float | None, ...] = ()
    """Each run in `unit`; None for one that missed its target."""
    accuracy: Mapping[str, float] = field(default_factory=dict)
    """Metric -> score."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Metric -> required score."""
    noise: tuple[str, ...] = ()
    """The judge's rules that found a disturbance in a run."""
    attempts: int | None = None
    """Attempts in the ledger; None without one."""
    concurrency: int | None = None
    """Of a point of a curve: requests in flight."""
    tps_per_user: float | None = None
    """Of a point of a curve: tokens/s that a user sees."""
    ttft_p90_ms: float | None = None
    """Of a point of a curve: p90 of the time to the first token."""

    @property
    def is_broken(self) -> bool:
        """Return whether the judge rejects it, or it cannot be read: no figure of it counts."""
        return self.verdict == Verdict.BROKEN


class Results(Sequence[ResultRecord]):
    """The results at a path, in the order of `podium score`."""

    def __init__(self, records: Sequence[ResultRecord]) -> None:
        self._records = tuple(records)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> ResultRecord: ...

    @overload
    def __getitem__(self, index: slice) -> "Results": ...

    def __getitem__(self, index: int | slice) -> "ResultRecord | Results":
        found = self._records[index]
        return Results(found) if isinstance(found, tuple) else found

    def __add__(self, other: Sequence[ResultRecord]) -> "Results":
        return Results((*self._records, *other))

    def __repr__(self) -> str:
        broken = sum(each.is_broken for each in self._records)
        return f"<podium.Results: {len(self._records)} results, {broken} broken>"

    def to_frame(self) -> "pandas.DataFrame":
        """Return a table with a row for each result and a column for each field; `accuracy` and
        `target` have one for each metric, such as `accuracy.top1`. MissingError without pandas.
        """
        try:
            import pandas
        except ImportError as error:
            raise MissingError(
                f"to_frame() needs pandas: {format_install_command(NOTEBOOK_EXTRA)}"
            ) from error
        plain = [each.name for each in fields(ResultRecord) if each.name not in SPREAD_FIELDS]
        spread = dict.fromkeys(
            f"{name}.{metric}"
            for name in SPREAD_FIELDS
            for each in self._records
            for metric in getattr(each, name)
        )
        rows = [build_frame_row(each) for each in self._records]
        return pandas.DataFrame(rows, columns=[*plain, *spread])


def build_frame_row(record: ResultRecord) -> dict[str, object]:
    """Return a record's cells by column."""
    cells: dict[str, object] = {
        each.name: getattr(record, each.name)
        for each in fields(record)
        if each.name not in SPREAD_FIELDS
    }
    for name in SPREAD_FIELDS:
        cells |= {f"{name}.{metric}": value for metric, value in getattr(record, name).items()}
    return cells


def load_results(path: str | Path) -> Results:
    """Load the results at a path, each with the judge's verdict.

    A result that breaks a rule or cannot be read is a record, too: its `verdict` is `broken`, and
    `errors` says why. All results of a bundle that was changed after it was sealed are broken.

    Args:
        path: a bundle; a results folder or a part of one; a tree of published results.

    Raises:
        JudgedError: there are no results, or the bundle cannot be unpacked or is of a later format.
        MissingError: this machine lacks something, such as space to unpack.

        Both are PodiumError; its text is one sentence.
    """
    given = Path(path)
    curves = read_path_curves(given) if given.exists() else []
    points = [convert_point_to_record(each, given) for each in iterate_point_scores(curves)]
    if points and (given.is_file() or not find_requested_results(given)):
        return Results(points)
    with open_results(given) as found:
        root = find_loaded_root(given, found)
        check_bundle_format(given, root)
        damage = tuple(list_bundle_problems(given))
        judge = compliance_check.choose_shared_judge(found)
        records = [load_result_record(given, root, each, judge, damage) for each in found]
    return Results((*records, *points))


def find_loaded_root(given: Path, found: Sequence[IndexedResult]) -> Path:
    """Return the folder that results are named relative to: the path, or the unpacked bundle."""
    is_bundle = given.is_file() and not found[0].single_log
    return found[0].results_root if is_bundle else make_path_absolute(given)


def make_path_absolute(path: Path) -> Path:
    """Return a path from the root on without `..`; links stay, as the index of results has them."""
    return Path(os.path.normpath(path.absolute()))


def name_place(place: Path, root: Path) -> str:
    """Name a file or folder relative to the loaded path; "." for the path itself."""
    place, root = make_path_absolute(place), make_path_absolute(root)
    return place.relative_to(root).as_posix() if place.is_relative_to(root) else str(place)


def check_bundle_format(given: Path, root: Path) -> None:
    """Raise JudgedError for a bundle of a later format than this version reads."""
    try:
        header = read_untrusted_file(root / MANIFEST_FILE, MANIFEST_HEADER_DECODER.decode)
    except UnreadableError:  # no bundle, or a damaged one, which the judge reports
        return
    if header.format > max(KNOWN_BUNDLE_FORMATS):
        raise JudgedError(
            f"{given}: a bundle of format {header.format}, written by podium {header.version}; this"
            f" version reads formats up to {max(KNOWN_BUNDLE_FORMATS)}: install a newer one"
        )


def load_result_record(
    given: Path, root: Path, result: IndexedResult, judge: Judge, damage: tuple[str, ...]
) -> ResultRecord:
    """Load one result; one that cannot be read is a broken record."""
    folder = name_place(result.single_log or result.folder, root)
    try:
        side = read_comparison_side(given, result, not damage, judge)
    except PodiumError as error:
        return ResultRecord(
            source=str(given),
            folder=folder,
            verdict=Verdict.BROKEN.value,
            errors=(*damage, str(error).replace(f"{root}/", "")),
            division=result.division,
            org=result.org,
            system=result.system,
            workload=result.workload,
            half=INFERENCE_HALF if result.scenario else TRAINING_HALF,
            scenario=result.scenario_name,
        )
    own = compliance_check.judge_single_result(result, judge)
    verdict = compute_verdict(own)
    if not side.score.compliant and verdict is Verdict.VALID:
        verdict = Verdict.BROKEN  # of documents that contradict one another, or a changed bundle
    errors = (
        compliance_check.format_finding_line(each).replace(f"{root}/", "")
        for each in own
        if each.severity is Severity.ERROR
    )
    return build_result_record(side, given, folder, verdict, (*damage, *errors))


def build_result_record(
    side: ComparisonSide, given: Path, folder: str, verdict: Verdict, errors: tuple[str, ...]
) -> ResultRecord:
    """Build the record of a result that was read."""
    score = side.score
    return ResultRecord(
        source=str(given),
        folder=folder,
        verdict=verdict.value,
        errors=errors,
        engine=side.engine,
        half=INFERENCE_HALF if score.scenario else TRAINING_HALF,
        scenario=score.scenario,
        noise=score.noise,
        attempts=score.attempts,
        **describe_shared_fields(score),
    )


def describe_shared_fields(score: Score) -> dict[str, Any]:
    """Return the fields that a result and a point of a curve have alike."""
    interval = (
        estimate_value_interval(score.value, score.runs, INTERVAL_CONFIDENCE)
        if len(score.runs) >= MIN_INTERVAL_RUNS
        else None
    )
    names = ("round", "profile", "division", "org", "system", "precision", "workload")
    return {name: getattr(score, name) for name in names} | {
        "accelerator": score.machine.accelerator,
        "accelerators": score.machine.accelerators,
        "nodes": score.machine.nodes,
        "metric": score.metric,
        "value": score.value,
        "unit": score.unit,
        "low": interval.low if interval else None,
        "high": interval.high if interval else None,
        "runs": score.runs,
        "accuracy": dict(score.accuracy),
        "target": dict(score.target),
    }


def convert_point_to_record(point: PointScore, given: Path) -> ResultRecord:
    """Convert a point of a curve to a record."""
    return ResultRecord(
        source=str(given),
        folder=name_place(Path(point.path), given),
        verdict=(Verdict.VALID if point.compliant else Verdict.BROKEN).value,
        errors=point.failed_rules,
        half=CURVE_HALF,
        concurrency=point.concurrency,
        tps_per_user=point.tps_per_user,
        ttft_p90_ms=point.ttft_p90_ms,
        **describe_shared_fields(point),
    )
