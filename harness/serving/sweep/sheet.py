"""The table of a sweep under way: what this sweep measured, and what an earlier one measured of the
same system.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from harness.serving.study_machine import describe_study_machine
from harness.serving.sweep.idle import read_idle_power
from harness.serving.sweep.points import convert_identity_to_json
from harness.serving.sweep.study_files import (
    read_sweep_point,
    read_sweep_study,
    write_sweep_document,
)
from harness.serving.sweep.subjects import SweepOptions, SweptSubject, build_study_path
from suite.files.layout import PARTIAL_SUFFIX
from suite.files.superseded import move_to_superseded
from suite.studies.documents import (
    IDLE_TELEMETRY_FILE,
    STUDY_ACCURACY_FOLDER,
    STUDY_FILE,
    STUDY_TRUTH_FOLDER,
    SWEEP_KIND,
    PointIdentity,
    RateDrift,
    RequestedPoints,
    Study,
    StudyRow,
    SweepRequest,
    build_batch_settings,
    order_sweep_points,
    select_best_batches,
)
from suite.units import NS_PER_S
from suite.workload import Scores

PointKey = tuple[str, str, int]
"""Engine, precision, batch."""


@dataclass(slots=True)
class SweepSeries:
    """The points of one subject in one engine and precision."""

    swept: SweptSubject
    rows: dict[int, StudyRow] = field(default_factory=dict)
    drift: RateDrift | None = None
    scores: Scores = field(default_factory=dict)

    @property
    def identity(self) -> PointIdentity:
        """Return what is measured, of no batch size."""
        return self.swept.subject.identity

    @property
    def label(self) -> str:
        """Return subject, engine and precision."""
        return f"{self.identity.subject} {self.identity.engine} {self.identity.precision}"

    @property
    def sample_ns(self) -> float | None:
        """Return the latency per sample at the largest batch measured so far."""
        known = {
            row.batch: row.samples_per_second
            for row in self.rows.values()
            if row.samples_per_second
        }
        return NS_PER_S / known[max(known)] if known else None

    @property
    def reference(self) -> Mapping[str, float]:
        """Return the reference accuracy of a workload's checkpoint."""
        return self.swept.reference

    def iterate_scored_rows(self) -> Iterator[StudyRow]:
        """Yield the points with their scores."""
        for _, row in sorted(self.rows.items()):
            difference = {
                metric: value - self.reference[metric]
                for metric, value in self.scores.items()
                if metric in self.reference
            }
            yield (
                replace(row, scores=dict(self.scores), difference=difference)
                if row.samples_per_second
                else row
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierSweep:
    """What an earlier sweep measured of the same system."""

    rows: tuple[StudyRow, ...] = ()
    drift: tuple[RateDrift, ...] = ()
    requests: tuple[RequestedPoints, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepTable:
    """The study of one subject."""

    study_folder: Path
    series: Sequence[SweepSeries]
    request: SweepOptions
    command: SweepRequest
    earlier: EarlierSweep

    def write_study(self, *, finished: bool = False) -> Study:
        """Write the table in its present state."""
        study = self.build_study(finished)
        write_sweep_document(self.study_folder / STUDY_FILE, study)
        return study

    def build_study(self, finished: bool) -> Study:
        """Build the table: rows of this sweep take the place of earlier ones."""
        first, rows = self.series[0].identity, self.merge_rows()
        drifts = {
            get_point_key(drift): drift
            for drift in (*self.earlier.drift, *(each.drift for each in self.series if each.drift))
        }
        return Study(
            kind=SWEEP_KIND,
            subject=first.subject,
            bare=first.bare,
            weights=first.weights,
            profile=first.profile,
            system=first.system,
            device=first.device,
            threads=first.threads,
            seconds=first.seconds,
            seed=self.request.seed,
            within_ms=self.request.within_ms,
            rows=rows,
            drift=tuple(
                drift
                for place, drift in drifts.items()
                if place in {get_point_key(row) for row in rows if row.folder}
            ),
            best=select_best_batches(rows, self.request.within_ms),
            idle=read_idle_power(self.study_folder),
            version=first.version,
            finished=finished,
            command=self.command,
            asked=self.merge_requests(),
            reference=dict(self.series[0].reference),
            machine=describe_study_machine(self.study_folder),
        )

    def merge_rows(self) -> tuple[StudyRow, ...]:
        """Return the rows of this sweep, then those of an earlier one that this one did not
        replace; by engine, precision and batch.
        """
        own = {
            get_point_key(row): row for each in self.series for row in each.iterate_scored_rows()
        }
        scored = {
            (each.identity.engine, each.identity.precision): each
            for each in self.series
            if each.scores
        }
        every = {
            get_point_key(row): apply_series_scores(row, scored.get((row.engine, row.precision)))
            for row in self.earlier.rows
        } | own
        order = list(dict.fromkeys((engine, precision) for engine, precision, _ in (*own, *every)))
        return tuple(
            every[place]
            for place in sorted(every, key=lambda place: (order.index(place[:2]), place[2]))
        )

    def merge_requests(self) -> tuple[RequestedPoints, ...]:
        """Return what was asked of each engine and precision, by this sweep and earlier ones."""
        before = {(each.engine, each.precision): each for each in self.earlier.requests}
        own = {
            (each.identity.engine, each.identity.precision): describe_series_request(
                each.identity, self.request.batches
            )
            for each in self.series
        }
        for place, each in own.items():
            if place in before:
                own[place] = replace(
                    each, batches=tuple(sorted({*each.batches, *before[place].batches}))
                )
        return tuple(
            (own | {place: each for place, each in before.items() if place not in own}).values()
        )


def apply_series_scores(row: StudyRow, series: SweepSeries | None) -> StudyRow:
    """Copy the series' scores, which are of one accuracy run, to an earlier row of the series."""
    if series is None or not row.samples_per_second:
        return row
    (made,) = SweepSeries(
        series.swept, {row.batch: row}, scores=series.scores
    ).iterate_scored_rows()
    return made


def get_point_key(entry: StudyRow | RateDrift) -> PointKey:
    """Return what a row is of."""
    return entry.engine, entry.precision, entry.batch


def describe_series_request(identity: PointIdentity, batches: Iterable[int]) -> RequestedPoints:
    """Return what is asked of one engine and precision."""
    settings = {
        name: value
        for name, value in convert_identity_to_json(identity)["settings"].items()
        if name not in build_batch_settings(0)
    }
    return RequestedPoints(
        engine=identity.engine,
        precision=identity.precision,
        framework=identity.framework,
        batches=tuple(sorted(batches)),
        settings=settings,
    )


def begin_sweep_tables(
    every: Sequence[SweepSeries], request: SweepOptions, results: Path
) -> list[SweepTable]:
    """Begin a table for each subject; runs of another system, request or version are moved aside,
    and runs of the same one stay.
    """
    names = tuple(dict.fromkeys(each.identity.subject for each in every))
    order = order_sweep_points(
        names, request.engines, request.precisions, request.batches, request.seed
    )
    command = SweepRequest(
        subjects=names,
        engines=request.engines,
        precisions=tuple(map(str, request.precisions)),
        batches=request.batches,
        order=order,
    )
    made = []
    for name in names:
        own = [each for each in every if each.identity.subject == name]
        study_folder = build_study_path(results, name)
        earlier = read_earlier_sweep(study_folder, own, request)
        strange = find_unexpected_files(study_folder, own, request, earlier)
        unfinished = [path for path in strange if path.name.endswith(PARTIAL_SUFFIX)]
        for path in unfinished:  # of a killed run: never a result
            shutil.rmtree(path)
        move_to_superseded(
            [path for path in strange if path not in unfinished], results=results.absolute()
        )
        made.append(
            SweepTable(
                study_folder=study_folder,
                series=own,
                request=request,
                command=command,
                earlier=earlier,
            )
        )
    return made


def read_earlier_sweep(
    place: Path, series: Sequence[SweepSeries], request: SweepOptions
) -> EarlierSweep:
    """Read what an earlier sweep measured of the same system, and say which rows stay though this
    one does not ask for them.
    """
    study = read_sweep_study(place)
    if study is None:
        return EarlierSweep()
    first = series[0].identity
    alike = (
        "subject",
        "bare",
        "weights",
        "profile",
        "system",
        "device",
        "threads",
        "seconds",
        "version",
    )
    if any(getattr(study, name) != getattr(first, name) for name in alike):
        return EarlierSweep()
    rows = tuple(
        row
        for row in study.rows
        if (
            is_run_current(place / row.folder, row, series)
            if row.folder
            else is_refusal_current(row, study, series)
        )
    )
    drift = tuple(each for each in study.drift if is_run_current(place / each.folder, each, series))
    asked = {(each.engine, each.precision): each for each in study.asked}
    batches = {
        place: [row.batch for row in rows if (row.engine, row.precision) == place]
        for place in asked
    }
    now = {(each.identity.engine, each.identity.precision) for each in series}
    if others := [
        row
        for row in rows
        if (row.engine, row.precision) not in now or row.batch not in request.batches
    ]:
        click.echo(
            f"{first.subject}: kept from earlier sweeps:"
            f" {', '.join(f'{row.engine} {row.precision} batch {row.batch}' for row in others)}"
        )
    return EarlierSweep(
        rows=rows,
        drift=drift,
        requests=tuple(
            replace(asked[place], batches=tuple(found)) for place, found in batches.items() if found
        ),
    )


def is_refusal_current(row: StudyRow, study: Study, series: Sequence[SweepSeries]) -> bool:
    """Return whether a row without a run is of the system of this sweep."""
    earlier_request = next(
        (
            each
            for each in study.asked
            if (each.engine, each.precision) == (row.engine, row.precision)
        ),
        None,
    )
    own = next(
        (
            each.identity
            for each in series
            if (each.identity.engine, each.identity.precision) == (row.engine, row.precision)
        ),
        None,
    )
    return earlier_request is not None and (
        own is None or describe_series_request(own, earlier_request.batches) == earlier_request
    )


def is_run_current(
    folder: Path, entry: StudyRow | RateDrift, series: Sequence[SweepSeries]
) -> bool:
    """Return whether a run is of the system and the batch size of this sweep."""
    point = read_sweep_point(folder)
    if point is None or (point.engine, point.precision, point.batch) != get_point_key(entry):
        return False
    own = next(
        (
            each.identity
            for each in series
            if (each.identity.engine, each.identity.precision) == (entry.engine, entry.precision)
        ),
        None,
    )
    if own is not None:
        return describe_series_request(point, ()) == describe_series_request(
            own, ()
        ) and is_same_but_settings(point, own)
    return is_same_but_settings(
        point, replace(series[0].identity, engine=point.engine, precision=point.precision)
    )


def is_same_but_settings(point: PointIdentity, identity: PointIdentity) -> bool:
    """Return whether two points are of one system, regardless of their settings and batch."""
    left, right = (
        convert_identity_to_json(replace(each, settings={}, batch=0)) for each in (point, identity)
    )
    return left == right


def find_unexpected_files(
    study_folder: Path, series: Sequence[SweepSeries], request: SweepOptions, earlier: EarlierSweep
) -> list[Path]:
    """Return what is in a study's folder and is no part of the study that begins: if nothing stays,
    its table too.
    """
    own = {each.swept.subject.folder: each for each in series}
    earlier_entries: tuple[StudyRow | RateDrift, ...] = (*earlier.rows, *earlier.drift)
    named = {study_folder / each.folder for each in earlier_entries if each.folder}
    systems = {path.parent for path in named} | set(own)
    every = (
        [
            path
            for path in sorted(study_folder.iterdir())
            if path.is_dir() and path.name != STUDY_TRUTH_FOLDER
        ]
        if study_folder.is_dir()
        else []
    )
    found = [path for path in every if path not in systems]
    for folder in (path for path in every if path in systems):
        here = [path for path in sorted(folder.iterdir()) if path not in named]
        found += [
            path
            for path in here
            if not (
                is_run_of_sweep(path, own[folder], request)
                if folder in own
                else path.name == STUDY_ACCURACY_FOLDER
            )
        ]
    if study_folder.is_dir() and not earlier.rows:
        found += [
            study_folder / STUDY_FILE,
            *(
                [study_folder / IDLE_TELEMETRY_FILE]
                if len(found) == len(every) and not any(path in systems for path in every)
                else []
            ),
        ]
    return found


def is_run_of_sweep(path: Path, series: SweepSeries, request: SweepOptions) -> bool:
    """Return whether a folder is a finished run that this sweep needs, or the accuracy run of its
    series.
    """
    point = read_sweep_point(path)
    if (
        point is None
        or path.name.endswith(PARTIAL_SUFFIX)
        or (point.batch not in request.batches and path.name != STUDY_ACCURACY_FOLDER)
    ):
        return False
    return describe_series_request(point, ()) == describe_series_request(
        series.identity, ()
    ) and is_same_but_settings(point, series.identity)
