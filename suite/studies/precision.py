"""The kind of study that compares engines, number formats and servers: each is scored once on the
accuracy set, and measured in Offline and SingleStream.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from suite.columns import UNKNOWN_CELL, Column, Table, format_plain_value
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY, TOKEN_RATE_UNIT
from suite.loadgen.scenario import Scenario
from suite.loadgen.token_record import is_time_per_token_known
from suite.measurement.logprob_causes import LogprobDifferences
from suite.measurement.paired import PairedDifference
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.studies.answered_set import AnswerComparison
from suite.studies.kind import (
    JudgedConditions,
    PlannedRun,
    StudiedRow,
    StudiedSystem,
    StudyKind,
    build_figure_column,
)
from suite.studies.likelihoods import (
    iterate_likelihood_sentences,
    list_likelihood_cells,
    tell_evidence,
    tell_likelihoods,
)
from suite.studies.points import describe_figures
from suite.studies.precision_rows import (
    ACCURACY_RUN,
    NO_FIGURES,
    PRECISION_RUNS,
    PRECISION_SCENARIOS,
    Measured,
    PrecisionAnswer,
    PrecisionFigures,
    PrecisionPoint,
    PrecisionRequest,
    build_round_conditions,
    choose_reference,
    collect_likelihoods,
    compare_rates,
    compare_rows,
    compute_accuracy_figures,
    explain_row,
    identify_row,
    is_run_short,
    iterate_run_faults,
    list_system_rows,
    merge_figures,
    name_system,
)
from suite.studies.run_facts import RunFacts
from suite.units import NS_PER_MS
from suite.workload import Mode, Scores

PRECISION_KIND: Final = "precision"
OFFLINE_RATE_KEY: Final = "result_samples_per_second"
OFFLINE_TOKENS_KEY: Final = "result_tokens_per_second"
"""Logged where LoadGen measures tokens."""
LATENCY_KEY: Final = "result_{}.00_percentile_latency_ns"
SHOWN_PERCENTILES: Final = (50, 90, 99)
NO_DIFFERENCE: Final = "none"
"""In the place of differences that are all 0."""
INSEPARABLE_MARK: Final = " (not separable)"
TOKEN_PERCENTILE: Final = 90.0
"""Of the times of tokens. Source: as of curves (suite.studies.concurrency_curve)."""


def find_row_scores(row: StudiedRow) -> Scores:
    """Return the scores of a row; none if it could not be measured."""
    return row.find_figure("scores") or {}


def compute_differences(row: StudiedRow) -> Scores:
    """Return each score minus what it is compared with, where that is known."""
    known = row.answer.scores
    scores = find_row_scores(row)
    return {metric: value - known[metric] for metric, value in scores.items() if metric in known}


def find_comparison(row: StudiedRow) -> AnswerComparison | None:
    """Return how the answers of a row differ from the reference's; None of the reference, and of
    a row without answers.
    """
    found: AnswerComparison | None = row.answer.compared.get(name_system(row.point.system))
    return found


def tell_score_differences(row: StudiedRow) -> str:
    """Format the differences of scores, each with the word that no test separates them."""
    compared, differences = find_comparison(row), compute_differences(row)
    if differences and not any(differences.values()):
        return NO_DIFFERENCE
    told = [
        f"{metric} {value:+.4f}{mark_inseparable(compared, metric)}"
        for metric, value in differences.items()
    ]
    return ", ".join(told) or UNKNOWN_CELL


def mark_inseparable(compared: AnswerComparison | None, metric: str) -> str:
    """Return the mark of a difference that no test separates from none."""
    if compared is None or compared.equal == compared.samples:
        return ""
    found = compared.metrics.get(metric)
    return "" if found is None or found.is_separable else INSEPARABLE_MARK


def find_likelihoods(row: StudiedRow) -> LogprobDifferences | None:
    """Return how the log-probabilities of a row differ from the reference's; None if that is not
    known.
    """
    found: LogprobDifferences | None = row.answer.likelihoods.get(name_system(row.point.system))
    return found


def count_answers_as_reference(row: StudiedRow) -> int:
    """Return how many answers are those of the reference."""
    compared = find_comparison(row)
    return compared.equal if compared else 0


def count_agreeing_answers(row: StudiedRow) -> int:
    """Return how many answers may come from the same model as the reference's."""
    compared = find_comparison(row)
    return compared.agreeing if compared else 0


def tell_share(row: StudiedRow, count: int) -> str:
    """Format a number of answers as a share of all."""
    compared = find_comparison(row)
    if compared is None or not count:
        return UNKNOWN_CELL
    return f"{100 * count / compared.samples:.1f} %"


def iterate_comparisons(answer: PrecisionAnswer) -> Iterator[str]:
    """Tell the test behind each difference, of systems that answer anything differently."""
    for name, compared in answer.compared.items():
        if compared.equal == compared.samples:
            yield f"{name} to {answer.reference}: all {compared.samples:,} answers are equal"
            continue
        for metric, each in compared.metrics.items():
            yield (
                f"{name} to {answer.reference}: {metric} {each.difference:+.4f}, 95 % interval"
                f" {each.low:+.4f} to {each.high:+.4f}, {describe_test(each)};"
                f" {each.samples:,} samples find {each.smallest:.4f}"
            )
        if compared.first_difference is not None:
            yield (
                f"{name} to {answer.reference}: {compared.samples - compared.equal} answers differ,"
                f" half of them by token {compared.first_difference:g}"
            )


def describe_test(paired: PairedDifference) -> str:
    """Name the test of a difference and what it says."""
    verdict = "separable" if paired.is_separable else "not separable"
    return f"{paired.test} p {paired.p:.2g}: {verdict}"


def compute_speed_up(row: StudiedRow) -> float | None:
    """Return the rate relative to that of the reference; None if one is unknown."""
    rate, base = row.find_figure("samples_per_second"), row.answer.samples_per_second
    return rate / base if rate and base else None


def tell_speed_up(row: StudiedRow) -> str:
    """Format the relative rate, with the word that no test tells it from the reference's."""
    is_told_apart = row.answer.separable.get(name_system(row.point.system), True)
    told = format_plain_value(compute_speed_up(row), 2)
    return told if is_told_apart else f"{told}{INSEPARABLE_MARK}"


def read_row_latencies(row: StudiedRow) -> dict[str, float]:
    """Return the latencies of a row, ns, by percentile."""
    found = {f"p{share}": row.find_figure(f"p{share}_ns") for share in SHOWN_PERCENTILES}
    return {name: value for name, value in found.items() if value is not None}


def tell_scores(scores: Scores, form: str) -> str:
    """Format scores, each by `form`."""
    return ", ".join(f"{metric} {value:{form}}" for metric, value in scores.items()) or UNKNOWN_CELL


def list_score_cells(scores: Scores) -> tuple[str, ...]:
    """Return scores for programs, with all digits."""
    return tuple(f"{metric}={value}" for metric, value in scores.items())


PRECISION_TABLE: Final[Table[StudiedRow]] = Table(
    columns=(
        Column("server", lambda row: row.point.server or None, optional=True),
        Column(
            "engine",
            lambda row: identify_row(row.studied).engine.text,
            tell=lambda row: identify_row(row.studied).named_engine.describe_statement(),
        ),
        Column(
            "precision",
            lambda row: identify_row(row.studied).precision.text,
            tell=lambda row: identify_row(row.studied).precision.describe_statement(),
        ),
        Column(
            "scores",
            lambda row: list_score_cells(find_row_scores(row)),
            title="score",
            tell=lambda row: tell_scores(find_row_scores(row), ".4f"),
        ),
        Column(
            "difference",
            lambda row: list_score_cells(compute_differences(row)),
            title="to fp32",
            tell=tell_score_differences,
        ),
        Column(
            "equal_answers",
            lambda row: count_answers_as_reference(row) or None,
            title="equal",
            tell=lambda row: tell_share(row, count_answers_as_reference(row)),
            optional=True,
        ),
        Column(
            "agreeing_answers",
            lambda row: count_agreeing_answers(row) or None,
            title="agree",
            tell=lambda row: tell_share(row, count_agreeing_answers(row)),
        ),
        Column(
            "log_probabilities",
            lambda row: list_likelihood_cells(find_likelihoods(row)),
            title="log p differs by",
            tell=lambda row: tell_likelihoods(find_likelihoods(row)) or UNKNOWN_CELL,
            optional=True,
        ),
        Column(
            "evidence",
            lambda row: tell_evidence(find_likelihoods(row)) or None,
            title="which shows",
            optional=True,
        ),
        replace(build_figure_column("tokens_per_second", TOKEN_RATE_UNIT, 1), optional=True),
        build_figure_column("samples_per_second", "samples/s", 1),
        *(
            build_figure_column(f"p{share}_ns", f"p{share} ms", 2, scale=NS_PER_MS)
            for share in SHOWN_PERCENTILES
        ),
        replace(
            build_figure_column("first_token_ns", "TTFT p90 ms", 2, scale=NS_PER_MS), optional=True
        ),
        replace(
            build_figure_column("per_token_ns", "TPOT p90 ms", 3, scale=NS_PER_MS), optional=True
        ),
        Column("speed_up", compute_speed_up, title="speed-up", digits=2, tell=tell_speed_up),
        Column("compliant", lambda row: not explain_row(row.studied)),
    )
)


class EnginesAndPrecisions(StudyKind[PrecisionRequest, PrecisionPoint, PrecisionFigures]):
    """Accuracy and speed of engines and number formats."""

    name = PRECISION_KIND
    request = PrecisionRequest
    point = PrecisionPoint
    table = PRECISION_TABLE
    reads_power = True
    follows_advice = True
    has_several_systems = True
    plan_unit = "system"
    keeps_failures = True
    takes_results = True

    def check_request(self, values: Mapping[str, Any], system: StudiedSystem) -> None:
        """RequestError for a workload without rules for one of the scenarios."""
        for scenario in PRECISION_SCENARIOS:
            system.require_scenario_rules(scenario)

    def name_study(self, values: Mapping[str, Any], system: StudiedSystem) -> str:
        """Return the name of the study's folder."""
        return f"{system.workload}-{PRECISION_KIND}"

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> PrecisionRequest:
        """Resolve the systems, and what their runs have to keep."""
        rows = {each.label: system.require_scenario_rules(each) for each in PRECISION_SCENARIOS}
        return PrecisionRequest(
            systems=tuple(values["systems"]),
            score_limits=system.score_limits,
            conditions={name: build_round_conditions(row) for name, row in rows.items()},
            settings={
                name: value
                for name, value in system.settings.items()
                if name.startswith(PERFORMANCE_PREFIXES)
            },
        )

    def list_known_points(self, request: PrecisionRequest) -> Sequence[PrecisionPoint]:
        """Return a point of each server that runs already: the command says at once if it does
        not. Any other system that is refused is a row.
        """
        return [
            point
            for point in self.list_all_points(request)
            if point.system.is_address and point.run == ACCURACY_RUN
        ]

    def list_all_points(self, request: PrecisionRequest) -> Sequence[PrecisionPoint]:
        """Return each run of each system."""
        return [
            PrecisionPoint(
                engine=system.engine, precision=system.precision, server=system.server, run=run
            )
            for system in request.systems
            for run in PRECISION_RUNS
        ]

    def name_plan_part(self, point: PrecisionPoint) -> str:
        """Name the system of a point."""
        return name_system(point.system)

    def choose_next_point(
        self, request: PrecisionRequest, done: Sequence[Measured]
    ) -> PrecisionPoint | None:
        """Return the first run that is missing; none of a system after one that failed."""
        measured = {each.point for each in done}
        failed = {each.point.system for each in done if each.why}
        wanted = (each for each in self.list_all_points(request) if each.system not in failed)
        return next((each for each in wanted if each not in measured), None)

    def limit_repeats(self, point: PrecisionPoint, repeats: int) -> int:
        """Score the accuracy set once."""
        return 1 if point.run == ACCURACY_RUN else repeats

    def name_point(self, point: PrecisionPoint) -> str:
        """Return the name of a run's folder, in that of its system."""
        return point.run

    def describe_run(self, request: PrecisionRequest, point: PrecisionPoint) -> PlannedRun:
        """Describe a run: as the round asks of the scenario."""
        scenario, mode = PRECISION_RUNS[point.run]
        is_kept = mode is Mode.ACCURACY or not request.is_shortened(scenario)
        equal_issue = request.conditions[scenario.label].equal_issue
        return PlannedRun(
            scenario=scenario,
            mode=mode,
            engine=point.engine,
            precision=point.precision,
            server=point.server,
            fields={} if is_kept else {"equal_issue": equal_issue},
            keeps_round=is_kept,
        )

    def is_complete(self, request: PrecisionRequest, point: PrecisionPoint, run: RunFacts) -> bool:
        """Return whether a run is without errors, and a performance run VALID and as long as asked
        for.
        """
        if run.has_answers:
            return not run.errors
        scenario, _ = PRECISION_RUNS[point.run]
        return run.is_valid and not is_run_short(run, request.list_limits(scenario))

    def compute_figures(
        self, request: PrecisionRequest, point: PrecisionPoint, run: RunFacts
    ) -> PrecisionFigures | None:
        """Read scores, rate or latencies; None for a run without them."""
        figures = compute_run_figures(request, point, run)
        return figures and replace(figures, served=run.record.stated_system.served)

    def combine_figures(self, figures: Sequence[PrecisionFigures]) -> PrecisionFigures:
        """Return the means of several runs, with all their faults."""
        return merge_figures(figures)

    def arrange_rows(
        self, requests: Sequence[PrecisionRequest], points: Sequence[Measured]
    ) -> Sequence[Measured]:
        """Return a row for each system."""
        return list_system_rows(requests, points)

    def compute_answer(
        self, requests: Sequence[PrecisionRequest], points: Sequence[Measured]
    ) -> PrecisionAnswer:
        """Return what the rows are compared with, and those that are not compliant."""
        rows = list_system_rows(requests, points)
        first = choose_reference(rows)
        base = first.figures if first else NO_FIGURES
        told = (
            f"{name_system(row.point.system)}: {explain_row(row)}"
            for row in rows
            if row.point.system in requests[-1].systems and explain_row(row)
        )
        return PrecisionAnswer(
            scores={**base.scores, **requests[-1].score_limits.reference},
            samples_per_second=base.samples_per_second,
            reference=name_system(first.point.system) if first else "",
            compared=compare_rows(rows, first) if first else {},
            likelihoods=collect_likelihoods(rows, first) if first else {},
            separable=compare_rates(rows, first) if first else {},
            refused=tuple(told),
        )

    def describe_answer(
        self, request: PrecisionRequest, answer: PrecisionAnswer, points: Sequence[Measured]
    ) -> Sequence[str]:
        """Say how answers differ from the reference's, and why rows are not compliant."""
        told = ((name_system(each.point.system), explain_row(each)) for each in points)
        weights = {
            name_system(each.point.system): identify_row(each).weights.describe_statement()
            for each in points
            if each.point.server
        }
        return [
            *iterate_comparisons(answer),
            *iterate_likelihood_sentences(answer.likelihoods, answer.reference, weights),
            *(f"{name}: {why}" for name, why in told if why),
        ]

    def describe_failure(self, answer: PrecisionAnswer) -> str:
        """Return which systems are not compliant."""
        return "; ".join(answer.refused)

    def find_request_faults(
        self, request: PrecisionRequest, conditions: JudgedConditions
    ) -> Iterator[tuple[str, str]]:
        """Yield conditions and limits of scores other than the round's and the checkpoint's."""
        for scenario in PRECISION_SCENARIOS:
            row = conditions.scenarios.get(scenario)
            found = request.conditions[scenario.label]
            if row is not None and found != build_round_conditions(row):
                yield f"other conditions of {scenario.label}", "those of the round"
        stated, limits = request.score_limits, conditions.score_limits
        if limits is not None and not limits.reference:
            limits = replace(limits, reference=stated.reference)
        if limits is not None and stated != limits:
            yield f"{stated}", f"{limits}, of the round and the checkpoint"

    def describe_row(self, row: StudiedRow) -> Mapping[str, Any]:
        """Return a row as JSON."""
        figures = dict(describe_figures(row.studied))
        for name in ("answers", "classes", "likelihoods"):
            figures.pop(name, None)
        likelihoods = find_likelihoods(row)
        compared, identity = find_comparison(row), identify_row(row.studied)
        return {
            **figures,
            "served": asdict(identity) if row.point.server else None,
            "engine": identity.engine.text,
            "precision": identity.precision.text,
            "compared": asdict(compared) if compared else None,
            "log_probabilities": asdict(likelihoods) if likelihoods else None,
            "scores": find_row_scores(row),
            "difference": compute_differences(row),
            "latency_ns": read_row_latencies(row),
            "speed_up": compute_speed_up(row),
            "separable": row.answer.separable.get(name_system(row.point.system)),
            "compliant": not explain_row(row.studied),
            "why": explain_row(row.studied),
        }

    def describe_point(self, row: StudiedRow) -> str:
        """Describe a run in one line."""
        why = explain_row(row.studied)
        named = name_system(row.point.system)
        if row.figures is None:
            return f"{named}: {why}"
        return f"{named}: {describe_run_figures(row)}{f', {why}' if why else ''}"


PRECISION: Final = EnginesAndPrecisions()


def describe_run_figures(row: StudiedRow) -> str:
    """Describe what the runs of one point, or of a row, say."""
    rate, latency = row.find_figure("samples_per_second"), row.find_figure("p90_ns")
    cells = [
        tell_scores(find_row_scores(row), ".4f") if find_row_scores(row) else "",
        "" if rate is None else f"Offline {rate:,.1f} samples/s",
        "" if latency is None else f"SingleStream p90 {latency / NS_PER_MS:,.2f} ms",
    ]
    return ", ".join(filter(None, cells))


def compute_run_figures(
    request: PrecisionRequest, point: PrecisionPoint, run: RunFacts
) -> PrecisionFigures | None:
    """Read scores, rate or latencies; None for a run without them."""
    scenario, mode = PRECISION_RUNS[point.run]
    if mode is Mode.ACCURACY:
        return compute_accuracy_figures(request.score_limits, run)
    limits = request.conditions[scenario.label].limits
    faults = tuple(iterate_run_faults(scenario, run, limits))
    if scenario is Scenario.OFFLINE:
        rate, tokens = map(run.find_number, (OFFLINE_RATE_KEY, OFFLINE_TOKENS_KEY))
        if rate is None:
            return None
        return replace(NO_FIGURES, samples_per_second=rate, tokens_per_second=tokens, faults=faults)
    p50, p90, p99 = (run.find_number(LATENCY_KEY.format(each)) for each in SHOWN_PERCENTILES)
    if p50 is None or p90 is None or p99 is None:
        return None
    first, further = read_token_latencies(run)
    return replace(
        NO_FIGURES,
        p50_ns=p50,
        p90_ns=p90,
        p99_ns=p99,
        first_token_ns=first,
        per_token_ns=further,
        faults=faults,
    )


def read_token_latencies(run: RunFacts) -> tuple[float | None, float | None]:
    """Return the 90th percentiles of the time to the first token and of that per further token, ns;
    None of what LoadGen did not measure, and of what servers' bursts of tokens leave unknown.
    """
    first, further = (
        run.find_number(key.format(TOKEN_PERCENTILE)) for key in (FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY)
    )
    network, tokens = run.record.network, run.tokens
    if network is None or tokens is None:
        return first, further
    if not network.streamed:
        return None, None
    if not is_time_per_token_known(network.answers_in_one_read, len(tokens)):
        return first, None
    return first, further
