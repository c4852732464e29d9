"""The kind of study that measures throughput and latency by batch size: a closed loop of queries
for each batch, engine and number format.
"""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from suite.columns import Column, Table
from suite.errors import JudgedError, PodiumError, RequestError
from suite.human_numbers import format_whole_digits
from suite.loadgen.advice import EXPECTED_LATENCY_SHARE
from suite.loadgen.scenario import Scenario
from suite.measurement.mean_energy import average_energies
from suite.measurement.widest import select_widest_energies
from suite.records import EnergyRecord
from suite.rounds import HyperValue
from suite.studies.batch_loop import (
    MEAN_LATENCY_KEY,
    LoopFigures,
    build_batch_settings,
    choose_longer_run,
    compute_loop_figures,
)
from suite.studies.kind import (
    JudgedConditions,
    PlannedRun,
    ServedSpeed,
    StudiedRow,
    StudiedSystem,
    StudyKind,
)
from suite.studies.measured import MeasuredStudy
from suite.studies.points import StudiedPoint, average_figures
from suite.studies.run_facts import RunFacts
from suite.units import NS_PER_MS, NS_PER_S, NS_PER_US
from suite.workload import Mode

SWEEP_KIND: Final = "sweep"
BATCH: Final = "batch"
AGAIN: Final = "again"
ACCURACY: Final = "accuracy"
NO_MEMORY_PHRASE: Final = "memory does not suffice"
"""harness.engines.outputs: part of an engine's error for a batch that does not fit into memory."""
SCORING_BATCH_SIZE: Final = 32
"""Samples of a batch in which a bare network is scored; it changes no answer."""
FIRST_GUESS_SAMPLE_NS: Final = 200_000
"""Latency per sample before any is measured: LoadGen prepares as many queries as fit, and runs out
of them if the guess is too high.
"""
SWEEP_PERCENTILE: Final = 99.0
MIN_POINT_QUERIES: Final = 10
MIN_SLOW_QUERIES: Final = 3
"""Minimum queries if one takes longer than SLOW_QUERY_S."""
SLOW_QUERY_S: Final = 5.0
DURATION_SETTING: Final = "loadgen.min_duration_ms"
DURATION_KEY: Final = "effective_min_duration_ms"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """What a command asked for."""

    engines: tuple[str, ...]
    precisions: tuple[str, ...]
    batches: tuple[int, ...]
    seconds: float
    """Least length of a point."""
    seed: int
    """Of the order of the points."""
    within_ms: float | None
    bare: bool
    """Whether a bare network is measured."""
    scored: bool
    """Whether each engine and number format is scored."""
    reference: dict[str, float]
    """Reference accuracy of a workload's checkpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPoint:
    """A batch size of one engine and number format, or the answers of these."""

    engine: str
    precision: str
    purpose: str
    """batch; again: the first one, repeated at the end; accuracy."""
    batch: int
    """Samples of a query; 0 of accuracy."""
    seconds: float
    """Least length; 0 of accuracy."""

    @property
    def series(self) -> tuple[str, str]:
        """Return engine and number format."""
        return self.engine, self.precision


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFigures(LoopFigures):
    """What a run says."""

    scores: dict[str, float] = field(default_factory=dict)
    """Of an accuracy run, which has nothing else."""
    energy: tuple[EnergyRecord, ...] = ()
    """One record per power channel that was read beside the point."""
    no_energy: tuple[str, ...] = ()
    """Why a channel gave no energy."""

    @property
    def shown_energy(self) -> EnergyRecord | None:
        """Return the energy that a table shows: the system's by the best grade, else that of all
        parts together.
        """
        return next(iter(select_widest_energies(self.energy)), None)


Swept = StudiedPoint[SweepPoint, SweepFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow(SweepFigures):
    """One row of the table; None was not measured, or not often enough."""

    engine: str
    precision: str
    batch: int
    folder: str
    """Folder of the LoadGen run, relative to the study's; empty if there is none."""
    difference: dict[str, float] = field(default_factory=dict)
    """Scores minus the checkpoint's reference accuracy."""
    why: str = ""
    """Why there is no figure: not enough memory, or what this batch size alone cannot do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesScores:
    """The scores of an engine and number format."""

    engine: str
    precision: str
    scores: dict[str, float]
    difference: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDrift:
    """The first point, measured again at the end."""

    engine: str
    precision: str
    batch: int
    folder: str
    samples_per_second: float
    change: float
    """Second rate / first rate - 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BestBatch:
    """The largest measured batch whose tail latency is within the budget."""

    engine: str
    precision: str
    batch: int
    samples_per_second: float
    latency_ns: float
    by: str
    """p99; mean if a point has too few queries for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepAnswer:
    """What the points together say."""

    scores: tuple[SeriesScores, ...]
    drift: tuple[RateDrift, ...]
    best: tuple[BestBatch, ...]
    measured: int
    """Points with a rate."""


def list_series(request: SweepRequest) -> list[tuple[str, str]]:
    """Return the engines and number formats of a request."""
    return [(engine, precision) for engine in request.engines for precision in request.precisions]


def order_batch_points(request: SweepRequest) -> list[SweepPoint]:
    """Return the smallest batch of each series, then the others in a random order drawn by the
    seed.
    """
    series, least = list_series(request), min(request.batches)
    firsts = [(each, least) for each in series]
    rest = [(each, batch) for each in series for batch in request.batches if batch != least]
    random.Random(request.seed).shuffle(rest)
    return [
        SweepPoint(
            engine=engine, precision=precision, purpose=BATCH, batch=batch, seconds=request.seconds
        )
        for (engine, precision), batch in (*firsts, *rest)
    ]


def build_accuracy_point(engine: str, precision: str) -> SweepPoint:
    """Build the point that scores a series."""
    return SweepPoint(engine=engine, precision=precision, purpose=ACCURACY, batch=0, seconds=0.0)


def list_planned_points(request: SweepRequest, done: Sequence[Swept]) -> list[SweepPoint]:
    """Return all points of a request in order, given those that are measured: what could not be
    measured is neither repeated nor scored.
    """
    batches, least = order_batch_points(request), min(request.batches)
    measured = {each.point for each in done if each.runs}
    again = [
        SweepPoint(
            engine=each.engine,
            precision=each.precision,
            purpose=AGAIN,
            batch=least,
            seconds=request.seconds,
        )
        for each in batches
        if each.batch == least and each in measured
    ]
    fit = {each.series for each in batches if each in measured}
    scored = [build_accuracy_point(*each) for each in list_series(request) if each in fit]
    return [*batches, *again, *(scored if request.scored else ())]


def select_best_batches(rows: Sequence[StudyRow], within_ms: float | None) -> tuple[BestBatch, ...]:
    """Return the largest batch within the budget for each engine and number format; only measured
    points count.
    """
    if within_ms is None:
        return ()
    found: dict[tuple[str, str], BestBatch] = {}
    for row in sorted(rows, key=lambda row: row.batch):
        latency, by = row.p99_ns, "p99"
        if latency is None:
            latency, by = row.mean_latency_ns, "mean"
        if latency is None or row.samples_per_second is None or latency > within_ms * NS_PER_MS:
            continue
        found[row.engine, row.precision] = BestBatch(
            engine=row.engine,
            precision=row.precision,
            batch=row.batch,
            samples_per_second=row.samples_per_second,
            latency_ns=latency,
            by=by,
        )
    return tuple(found.values())


def build_study_row(studied: Swept, scores: Sequence[SeriesScores] = ()) -> StudyRow:
    """Build the row of a point, with the scores of its series."""
    point = studied.point
    own: dict[str, Any] = {
        "engine": point.engine,
        "precision": point.precision,
        "batch": point.batch,
        "folder": studied.folder,
    }
    if not studied.runs:
        return StudyRow(**own, why=studied.why)
    figures = asdict_shallow(studied.figures)
    if (ends := studied.find_interval("samples_per_second")) is not None:
        figures["low"], figures["high"] = ends
    found = next((each for each in scores if (each.engine, each.precision) == point.series), None)
    if found is not None:
        figures |= {"scores": found.scores, "difference": found.difference}
    return StudyRow(**own, **figures)


def asdict_shallow(figures: SweepFigures) -> dict[str, Any]:
    """Return the fields of figures, with the records in them as they are."""
    return {name: getattr(figures, name) for name in SweepFigures.__dataclass_fields__}


def list_sweep_rows(study: MeasuredStudy) -> list[StudyRow]:
    """Return the rows of a sweep."""
    return [build_study_row(each, study.answer.scores) for each in study.points]


def compute_drifts(points: Sequence[Swept]) -> tuple[RateDrift, ...]:
    """Compute the drift of each point that was measured again at the end."""
    rates = {each.point: each.figures.samples_per_second for each in points if each.runs}
    drifts = []
    for each in points:
        point = each.point
        if point.purpose != AGAIN or not each.runs:
            continue
        first = SweepPoint(
            engine=point.engine,
            precision=point.precision,
            purpose=BATCH,
            batch=point.batch,
            seconds=point.seconds,
        )
        if before := rates.get(first):
            drifts.append(
                RateDrift(
                    engine=point.engine,
                    precision=point.precision,
                    batch=point.batch,
                    folder=each.folder,
                    samples_per_second=rates[point] or 0.0,
                    change=(rates[point] or 0.0) / before - 1,
                )
            )
    return tuple(drifts)


def collect_scores(
    points: Sequence[Swept], reference: Mapping[str, float]
) -> tuple[SeriesScores, ...]:
    """Return the scores of each series, and their differences from the reference accuracy."""
    return tuple(
        SeriesScores(
            engine=each.point.engine,
            precision=each.point.precision,
            scores=each.figures.scores,
            difference={
                metric: value - reference[metric]
                for metric, value in each.figures.scores.items()
                if metric in reference
            },
        )
        for each in points
        if each.point.purpose == ACCURACY and each.runs
    )


def read_row(row: StudiedRow) -> StudyRow:
    """Return a row of the table, with its scores."""
    return build_study_row(row.studied, row.answer.scores)


def find_shown_energy(row: StudiedRow, name: str) -> Any:
    """Return a figure of the energy that a table shows; None without one."""
    drawn = read_row(row).shown_energy
    if drawn is None:
        return None
    return getattr(drawn, name)


def tell_rate(row: StudiedRow) -> str:
    """Format a rate with half of its interval; a dash if there is none."""
    figures = read_row(row)
    if not figures.samples_per_second:
        return "-"
    half = ""
    if figures.low and figures.high:
        half = f" \u00b1{50 * (figures.high - figures.low) / figures.samples_per_second:.1f}%"
    return f"{figures.samples_per_second:,.1f}{half}"


def tell_watts(row: StudiedRow) -> str:
    """Format power with its grade."""
    drawn = read_row(row).shown_energy
    if drawn is None:
        return "-"
    return f"{drawn.average_w:,.1f} {drawn.grade}"


def tell_efficiency(row: StudiedRow) -> str:
    """Format samples/s/W."""
    rate = find_shown_energy(row, "samples_per_s_per_w")
    if rate is None:
        return "-"
    return format_whole_digits(rate, 3)


def build_row_column(name: str, **shown: Any) -> Column[StudiedRow]:
    """Build the column of a field of a row."""
    return Column(name, lambda row: getattr(read_row(row), name), **shown)


def build_latency_column(name: str, title: str) -> Column[StudiedRow]:
    """Build the column of a latency in ms."""

    def read_ms(row: StudiedRow) -> float | None:
        value = getattr(read_row(row), f"{name}_ns")
        return None if value is None else value / NS_PER_MS

    return Column(f"{name}_ms", read_ms, title=title, digits=2)


def build_program_column(name: str, read: Callable[[StudiedRow], Any]) -> Column[StudiedRow]:
    """Build a column that programs read, and people are not shown."""
    return Column(name, read, tell=lambda row: "", optional=True)


def build_energy_column(name: str, figure: str, **shown: Any) -> Column[StudiedRow]:
    """Build the column of a figure of the energy that a table shows."""
    return Column(name, lambda row: find_shown_energy(row, figure), **shown)


def join_scores(row: StudiedRow) -> str:
    """Join the scores with all their digits."""
    return " ".join(f"{metric}={value!r}" for metric, value in read_row(row).scores.items())


def tell_series_scores(row: StudiedRow) -> str:
    """Format the scores."""
    return " ".join(f"{metric} {value:.4f}" for metric, value in read_row(row).scores.items())


def tell_differences(row: StudiedRow) -> str:
    """Format the differences from the reference accuracy."""
    return " ".join(f"{value:+.4f}" for value in read_row(row).difference.values())


SWEEP_TABLE: Final[Table[StudiedRow]] = Table(
    columns=(
        build_program_column("subject", lambda row: row.subject.workload),
        build_program_column("system", lambda row: row.subject.system),
        build_row_column("engine"),
        build_row_column("precision"),
        build_row_column("batch", numeric=True),
        build_program_column("queries", lambda row: read_row(row).queries),
        build_row_column("samples_per_second", title="samples/s", tell=tell_rate, numeric=True),
        build_row_column("tokens_per_second", title="tokens/s", digits=1, optional=True),
        build_program_column("low", lambda row: read_row(row).low),
        build_program_column("high", lambda row: read_row(row).high),
        build_latency_column("mean_latency", "mean ms"),
        build_latency_column("p50", "p50 ms"),
        build_latency_column("p90", "p90 ms"),
        build_latency_column("p99", "p99 ms"),
        build_energy_column("watts", "average_w", title="W", tell=tell_watts, numeric=True),
        build_program_column("grade", lambda row: find_shown_energy(row, "grade")),
        build_program_column("scope", lambda row: "+".join(find_shown_energy(row, "scope") or ())),
        build_energy_column(
            "samples_per_s_per_w",
            "samples_per_s_per_w",
            title="samples/s/W",
            tell=tell_efficiency,
            numeric=True,
        ),
        build_program_column("j_per_sample", lambda row: find_shown_energy(row, "per_sample_j")),
        build_program_column("j_per_token", lambda row: find_shown_energy(row, "per_token_j")),
        Column("score", join_scores, tell=tell_series_scores, optional=True),
        Column("difference", tell_differences, title="to reference", optional=True),
        build_row_column("why", optional=True),
    )
)


class BatchSweep(StudyKind[SweepRequest, SweepPoint, SweepFigures]):
    """The study of batch sizes."""

    name = SWEEP_KIND
    note = "throughput and latency by batch size: a study, not a result"
    single_run_remark = "one run per point, with intervals of its ten parts"
    request = SweepRequest
    point = SweepPoint
    table = SWEEP_TABLE
    reads_power = True
    reads_idle_power = True
    has_several_systems = True
    keeps_failures = True

    def name_study(self, values: Mapping[str, Any], system: StudiedSystem) -> str:
        """Return the name of the study's folder: its subject's."""
        return system.workload

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> SweepRequest:
        """Take the options, with what the subject is."""
        return SweepRequest(
            engines=values["engines"],
            precisions=tuple(map(str, values["precisions"])),
            batches=values["batches"],
            seconds=values["seconds"],
            seed=values["seed"],
            within_ms=values["within_ms"],
            bare=system.is_bare,
            scored=system.can_be_scored,
            reference=dict(system.reference_accuracy),
        )

    def adopt_request(self, earlier: SweepRequest, now: SweepRequest) -> SweepRequest | None:
        """Return the request if its points are as long as those that are there."""
        return now if earlier.seconds == now.seconds else None

    def list_known_points(self, request: SweepRequest) -> Sequence[SweepPoint]:
        """Return the smallest batch of each series, and what scores it: what refuses a system
        refuses these.
        """
        series = list_series(request)
        scored = [build_accuracy_point(*each) for each in series] if request.scored else []
        return [*order_batch_points(request)[: len(series)], *scored]

    def list_all_points(self, request: SweepRequest) -> Sequence[SweepPoint]:
        """Return the batches of each series; which of them are measured again or scored follows
        from what can be measured.
        """
        return order_batch_points(request)

    def name_plan_part(self, point: SweepPoint) -> str:
        """Name the series of a point, and the point."""
        return f"{point.engine} {point.precision} {self.name_point(point)}"

    def estimate_least_s(self, point: SweepPoint) -> float | None:
        """Return the seconds asked for."""
        return point.seconds

    def choose_next_point(self, request: SweepRequest, done: Sequence[Swept]) -> SweepPoint | None:
        """Return the first planned point that is not measured."""
        known = {each.point for each in done}
        return next(
            (each for each in list_planned_points(request, done) if each not in known), None
        )

    def explain_omission(
        self, request: SweepRequest, point: SweepPoint, done: Sequence[Swept]
    ) -> str:
        """Return why a batch is not tried: a smaller one did not fit into memory."""
        full = (
            each
            for each in done
            if NO_MEMORY_PHRASE in each.why
            and each.point.series == point.series
            and each.point.batch < point.batch
        )
        smallest = min(full, key=lambda each: each.point.batch, default=None)
        return f"not tried: {smallest.why.removeprefix('not tried: ')}" if smallest else ""

    def explain_failure(self, point: SweepPoint, error: PodiumError, done: Sequence[Swept]) -> str:
        """Return why a batch has no figures: it does not fit into memory, or fails where another
        one was measured. Every other error ends the sweep.
        """
        if point.purpose != BATCH or not isinstance(error, RequestError | JudgedError):
            return ""
        beside = any(each.runs and each.point.series == point.series for each in done)
        return str(error) if beside or NO_MEMORY_PHRASE in str(error) else ""

    def limit_repeats(self, point: SweepPoint, repeats: int) -> int:
        """Return how many runs a point has: the same answers are scored once."""
        if point.purpose == ACCURACY:
            return 1
        return repeats

    def name_point(self, point: SweepPoint) -> str:
        """Return the name of a point's folder."""
        if point.purpose == ACCURACY:
            return ACCURACY
        return f"batch-{point.batch}" + (f"-{AGAIN}" if point.purpose == AGAIN else "")

    def describe_run(self, request: SweepRequest, point: SweepPoint) -> PlannedRun:
        """Describe a run: a closed loop, or all samples once."""
        if point.purpose == ACCURACY:
            return PlannedRun(
                scenario=Scenario.OFFLINE,
                mode=Mode.ACCURACY,
                settings=build_batch_settings(SCORING_BATCH_SIZE) if request.bare else {},
                keeps_round=False,
                engine=point.engine,
                precision=point.precision,
            )
        return PlannedRun(
            scenario=Scenario.MULTI_STREAM,
            settings=build_batch_settings(point.batch),
            fields={
                "samples_per_query": point.batch,
                "percentile": SWEEP_PERCENTILE,
                "sampled_answers": 0,
                "equal_issue": False,
            },
            keeps_round=False,
            engine=point.engine,
            precision=point.precision,
        )

    def guess_speed(self, point: SweepPoint, done: Sequence[Swept]) -> float | None:
        """Return samples/s by the largest batch measured so far."""
        if point.purpose == ACCURACY:
            return None
        known = {
            each.point.batch: each.figures.samples_per_second
            for each in done
            if each.runs and each.point.series == point.series and each.point.purpose != ACCURACY
        }
        return known[max(known)] if known else NS_PER_S / FIRST_GUESS_SAMPLE_NS

    def guess_settings(
        self, point: SweepPoint, speed: ServedSpeed, last: RunFacts | None
    ) -> Mapping[str, HyperValue]:
        """Return the length of a run and the latency of a query, by the last run if that was too
        short, or if LoadGen ran out of queries.
        """
        if point.purpose == ACCURACY:
            return {}
        query_ns, times = point.batch * NS_PER_S / speed.samples_per_second, 1
        if last is not None:
            query_ns = last.require_number(MEAN_LATENCY_KEY)
            times = find_run_multiple(last, point.seconds)
            if last.errors:
                query_ns /= 2
            else:
                times = self.find_longer_run(point, last) or times
        slow = query_ns > SLOW_QUERY_S * NS_PER_S
        return {
            DURATION_SETTING: int(times * point.seconds * 1000),
            "loadgen.min_queries": MIN_SLOW_QUERIES if slow else MIN_POINT_QUERIES,
            "multi_stream.expected_latency_us": EXPECTED_LATENCY_SHARE * query_ns / NS_PER_US,
        }

    def is_complete(self, request: SweepRequest, point: SweepPoint, run: RunFacts) -> bool:
        """Return whether LoadGen had queries enough, and the run is as long as its interval asks
        for. A verdict needs more queries than a slow batch has.
        """
        if point.purpose == ACCURACY:
            return super().is_complete(request, point, run)
        is_long_enough = (run.find_number(DURATION_KEY) or 0) >= int(point.seconds * 1000)
        return is_long_enough and not run.errors and self.find_longer_run(point, run) is None

    def find_longer_run(self, point: SweepPoint, run: RunFacts) -> int | None:
        """Return the multiple of its length for which a batch is measured again; None if its run is
        long enough. One that is repeated for its drift is not.
        """
        figures = compute_loop_figures(run, point.batch, find_run_multiple(run, point.seconds))
        if figures is None or point.purpose != BATCH:
            return None
        return choose_longer_run(figures, point.seconds)

    def compute_figures(
        self, request: SweepRequest, point: SweepPoint, run: RunFacts
    ) -> SweepFigures | None:
        """Compute the figures of a closed loop, or take the scores."""
        if point.purpose == ACCURACY:
            return SweepFigures(scores=dict(run.scores)) if run.scores else None
        figures = compute_loop_figures(run, point.batch, find_run_multiple(run, point.seconds))
        if figures is None:
            return None
        energy, reasons = run.compute_energy()
        return SweepFigures(**asdict(figures), energy=energy, no_energy=reasons)

    def combine_figures(self, figures: Sequence[SweepFigures]) -> SweepFigures:
        """Return the means of several runs, also of the energy by each channel that all have."""
        reasons = dict.fromkeys(reason for each in figures for reason in each.no_energy)
        return replace(
            average_figures(figures),
            energy=average_energies([each.energy for each in figures]),
            no_energy=tuple(reasons),
        )

    def arrange_rows(
        self, requests: Sequence[SweepRequest], points: Sequence[Swept]
    ) -> Sequence[Swept]:
        """Return the batches by series and size."""
        series = list(dict.fromkeys(each.point.series for each in points))
        batches = [each for each in points if each.point.purpose == BATCH]
        return sorted(batches, key=lambda each: (series.index(each.point.series), each.point.batch))

    def compute_answer(
        self, requests: Sequence[SweepRequest], points: Sequence[Swept]
    ) -> SweepAnswer:
        """Return scores, drifts, and the best batch of each series within the budget."""
        request = requests[-1]
        rows = [build_study_row(each) for each in self.arrange_rows(requests, points)]
        return SweepAnswer(
            scores=collect_scores(points, request.reference),
            drift=compute_drifts(points),
            best=select_best_batches(rows, request.within_ms),
            measured=sum(row.samples_per_second is not None for row in rows),
        )

    def describe_answer(
        self, request: SweepRequest, answer: SweepAnswer, points: Sequence[Swept]
    ) -> Sequence[str]:
        """Return the best batches and the drifts."""
        lines = []
        if request.within_ms is not None:
            found = "; ".join(
                f"{best.batch} in {best.engine} {best.precision} ({best.samples_per_second:,.1f}"
                f" samples/s, {best.by} latency)"
                for best in answer.best
            )
            lines.append(
                f"largest batch within {request.within_ms:g} ms:"
                f" {found or 'none of those measured'}"
            )
        lines += [
            f"drift of {drift.engine} {drift.precision}, batch {drift.batch} again at the end:"
            f" {100 * drift.change:+.1f} %"
            for drift in answer.drift
        ]
        return lines

    def describe_failure(self, answer: SweepAnswer) -> str:
        """Return that there is no figure."""
        if answer.measured:
            return ""
        return "no point could be measured"

    def find_request_faults(
        self, request: SweepRequest, conditions: JudgedConditions
    ) -> Iterator[tuple[str, str]]:
        """Yield a reference accuracy that is not the checkpoint's."""
        known = conditions.score_limits.reference if conditions.score_limits else {}
        if known and request.reference != dict(known):
            yield (
                f"reference accuracy {request.reference}",
                f"{dict(known)}, as in the checkpoint's record",
            )

    def describe_row(self, row: StudiedRow) -> Mapping[str, Any]:
        """Return a row as JSON."""
        return {**asdict(read_row(row)), "runs": len(row.studied.runs)}

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a point in one line."""
        point, figures = row.point, row.figures
        name = f"{point.engine} {point.precision}, {self.name_point(point).replace('-', ' ')}"
        if figures is None:
            return f"{name}: {row.studied.why}"
        if point.purpose == ACCURACY:
            scores = (f"{metric} {value:.4f}" for metric, value in figures.scores.items())
            return f"{name}: {', '.join(scores)}"
        drawn = figures.shown_energy
        watts = ""
        if drawn is not None:
            watts = f", {drawn.average_w:,.1f} W ({drawn.name}, {drawn.grade_description})"
        told = f"{figures.samples_per_second:,.1f} samples/s"
        lines = [f"{name}: {told}, {figures.mean_latency_ns / NS_PER_MS:.2f} ms{watts}"]
        return "\n".join((*lines, *(f"    no energy: {each}" for each in figures.no_energy)))


def find_run_multiple(run: RunFacts, seconds: float) -> int:
    """Return how many times the seconds asked for a run lasts at least."""
    asked_ms = run.find_number(DURATION_KEY) or 0.0
    return max(1, round(asked_ms / (1000 * seconds))) if seconds > 0 else 1


SWEEP: Final = BatchSweep()
