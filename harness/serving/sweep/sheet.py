"""The table of a sweep under way: what this sweep measured, and what an earlier one measured of the
same system.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click

from harness.serving.sweep.idle import idle_in
from harness.serving.sweep.points import plain
from harness.serving.sweep.study_files import point_in, save, study_in
from harness.serving.sweep.subjects import Request, Swept, home
from suite.files.layout import PARTIAL_SUFFIX
from suite.files.superseded import supersede
from suite.studies.documents import (
    IDLE_TELEMETRY_FILE,
    NS_PER_S,
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
from suite.workload import Scores

Place = tuple[str, str, int]
"""Engine, precision, batch."""


@dataclass(slots=True)
class Series:
    """The points of one subject in one engine and precision."""

    swept: Swept
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

    def finished_rows(self) -> Iterator[StudyRow]:
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
class Earlier:
    """What an earlier sweep measured of the same system."""

    rows: tuple[StudyRow, ...] = ()
    drift: tuple[RateDrift, ...] = ()
    asked: tuple[RequestedPoints, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """The study of one subject."""

    home: Path
    series: Sequence[Series]
    request: Request
    command: SweepRequest
    earlier: Earlier

    def save(self, *, finished: bool = False) -> Study:
        """Write the table as it stands."""
        study = self.study(finished)
        save(self.home / STUDY_FILE, study)
        return study

    def study(self, finished: bool) -> Study:
        """Build the table: rows of this sweep take the place of earlier ones."""
        first, rows = self.series[0].identity, self.rows()
        drifts = {
            place_of(drift): drift
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
                if place in {place_of(row) for row in rows if row.folder}
            ),
            best=select_best_batches(rows, self.request.within_ms),
            idle=idle_in(self.home),
            version=first.version,
            finished=finished,
            command=self.command,
            asked=self.asked(),
            reference=dict(self.series[0].reference),
        )

    def rows(self) -> tuple[StudyRow, ...]:
        """Return the rows of this sweep, then those of an earlier one that this one did not
        replace; by engine, precision and batch.
        """
        own = {place_of(row): row for each in self.series for row in each.finished_rows()}
        scored = {
            (each.identity.engine, each.identity.precision): each
            for each in self.series
            if each.scores
        }
        every = {
            place_of(row): again_scored(row, scored.get((row.engine, row.precision)))
            for row in self.earlier.rows
        } | own
        order = list(dict.fromkeys((engine, precision) for engine, precision, _ in (*own, *every)))
        return tuple(
            every[place]
            for place in sorted(every, key=lambda place: (order.index(place[:2]), place[2]))
        )

    def asked(self) -> tuple[RequestedPoints, ...]:
        """Return what was asked of each engine and precision, by this sweep and earlier ones."""
        before = {(each.engine, each.precision): each for each in self.earlier.asked}
        own = {
            (each.identity.engine, each.identity.precision): asked_of(
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


def again_scored(row: StudyRow, series: Series | None) -> StudyRow:
    """Give an earlier row of a series the series' scores, which are of one accuracy run."""
    if series is None or not row.samples_per_second:
        return row
    (made,) = Series(series.swept, {row.batch: row}, scores=series.scores).finished_rows()
    return made


def place_of(told: StudyRow | RateDrift) -> Place:
    """Return what a row is of."""
    return told.engine, told.precision, told.batch


def asked_of(identity: PointIdentity, batches: Iterable[int]) -> RequestedPoints:
    """Return what is asked of one engine and precision."""
    settings = {
        name: value
        for name, value in plain(identity)["settings"].items()
        if name not in build_batch_settings(0)
    }
    return RequestedPoints(
        engine=identity.engine,
        precision=identity.precision,
        framework=identity.framework,
        batches=tuple(sorted(batches)),
        settings=settings,
    )


def sheets(every: Sequence[Series], request: Request, results: Path) -> list[Sheet]:
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
        place = home(results, name)
        earlier = kept(place, own, request)
        strange = strangers(place, own, request, earlier)
        unfinished = [path for path in strange if path.name.endswith(PARTIAL_SUFFIX)]
        for path in unfinished:  # of a killed run: never a result
            shutil.rmtree(path)
        supersede(results.absolute(), [path for path in strange if path not in unfinished])
        made.append(
            Sheet(home=place, series=own, request=request, command=command, earlier=earlier)
        )
    return made


def kept(place: Path, series: Sequence[Series], request: Request) -> Earlier:
    """Read what an earlier sweep measured of the same system, and say which rows stay though this
    one does not ask for them.
    """
    study = study_in(place)
    if study is None:
        return Earlier()
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
        return Earlier()
    rows = tuple(
        row
        for row in study.rows
        if (same(place / row.folder, row, series) if row.folder else refused(row, study, series))
    )
    drift = tuple(each for each in study.drift if same(place / each.folder, each, series))
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
    return Earlier(
        rows=rows,
        drift=drift,
        asked=tuple(
            replace(asked[place], batches=tuple(found)) for place, found in batches.items() if found
        ),
    )


def refused(row: StudyRow, study: Study, series: Sequence[Series]) -> bool:
    """Tell whether a row without a run is of the system that is swept now."""
    told = next(
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
    return told is not None and (own is None or asked_of(own, told.batches) == told)


def same(folder: Path, told: StudyRow | RateDrift, series: Sequence[Series]) -> bool:
    """Tell whether a run is of the system that is swept now, in its batch size."""
    point = point_in(folder)
    if point is None or (point.engine, point.precision, point.batch) != place_of(told):
        return False
    own = next(
        (
            each.identity
            for each in series
            if (each.identity.engine, each.identity.precision) == (told.engine, told.precision)
        ),
        None,
    )
    if own is not None:
        return asked_of(point, ()) == asked_of(own, ()) and alike_but_settings(point, own)
    return alike_but_settings(
        point, replace(series[0].identity, engine=point.engine, precision=point.precision)
    )


def alike_but_settings(point: PointIdentity, identity: PointIdentity) -> bool:
    """Tell whether two points are of one system, whatever their settings and batch."""
    left, right = (plain(replace(each, settings={}, batch=0)) for each in (point, identity))
    return left == right


def strangers(
    place: Path, series: Sequence[Series], request: Request, earlier: Earlier
) -> list[Path]:
    """Return what is in a study's folder and is no part of the study that begins: if nothing stays,
    its table too.
    """
    own = {each.swept.subject.folder: each for each in series}
    told: tuple[StudyRow | RateDrift, ...] = (*earlier.rows, *earlier.drift)
    named = {place / each.folder for each in told if each.folder}
    systems = {path.parent for path in named} | set(own)
    every = (
        [
            path
            for path in sorted(place.iterdir())
            if path.is_dir() and path.name != STUDY_TRUTH_FOLDER
        ]
        if place.is_dir()
        else []
    )
    found = [path for path in every if path not in systems]
    for folder in (path for path in every if path in systems):
        here = [path for path in sorted(folder.iterdir()) if path not in named]
        found += [
            path
            for path in here
            if not (
                of_sweep(path, own[folder], request)
                if folder in own
                else path.name == STUDY_ACCURACY_FOLDER
            )
        ]
    if place.is_dir() and not earlier.rows:
        found += [
            place / STUDY_FILE,
            *(
                [place / IDLE_TELEMETRY_FILE]
                if len(found) == len(every) and not any(path in systems for path in every)
                else []
            ),
        ]
    return found


def of_sweep(path: Path, series: Series, request: Request) -> bool:
    """Tell whether a folder is a finished run that this sweep asks for, or the accuracy run of its
    series.
    """
    point = point_in(path)
    if (
        point is None
        or path.name.endswith(PARTIAL_SUFFIX)
        or (point.batch not in request.batches and path.name != STUDY_ACCURACY_FOLDER)
    ):
        return False
    return asked_of(point, ()) == asked_of(series.identity, ()) and alike_but_settings(
        point, series.identity
    )
