"""Compares each result with the baseline of its kind, or reports why the two are not comparable."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from submissions.compare.fitness import (
    explain_missing_ratio,
    find_allowed_differences,
    find_incomparability_reasons,
    find_unfitness_reasons,
)
from submissions.compare.per_unit import FigureBasis, FigureRequest
from submissions.compare.verdicts import (
    HypothesisTest,
    RatioStatistic,
    SignificanceSettings,
    SpeedVerdict,
    choose_speed_verdict,
    correct_p_values,
    run_hypothesis_test,
)
from submissions.compare.watts import (
    EnergyKind,
    choose_common_energy_kind,
    describe_energy_error,
    explain_energy_mismatch,
)
from submissions.labels import PathLabels, assign_letters
from submissions.published_rows import rank_row_by_value, select_rows_of_kind
from suite.files.layout import fold_name
from suite.measurement.intervals import (
    Interval,
    compute_log_spread,
    convert_log_to_factor,
    estimate_value_interval,
)
from suite.measurement.metrics import DerivedFigure, is_higher_better
from suite.result import Result, scale_to_headline

NO_SUCH_RESULT = "has no result of this kind"
NO_SUCH_POINT = "has no such point"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareRequest:
    """Request for a comparison."""

    baseline: str | None = None
    """Path or system of the baseline; None: the first result of each workload and scenario."""
    significance: SignificanceSettings = SignificanceSettings()
    per: FigureRequest | None = None
    references: tuple[Result, ...] = ()
    """Published rows; those of the same kind are shown with it."""
    labels: PathLabels | None = None
    """Names of the paths; None: their letters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedResult:
    """One result beside the baseline."""

    path: str
    """As given on the command line; the id of a published row."""
    label: str = ""
    """What it is called: the name or the letter of its path, with its system where the path has
    several of this kind; the system of a published row.
    """
    is_named: bool = False
    """Whether the user named its path."""
    result: Result = Result()
    """Empty if the path has no result of this kind."""
    absent: bool = False
    """Whether the path has no result of this kind."""
    interval: Interval | None = None
    """Interval of the value at the requested confidence."""
    statistic: RatioStatistic | None = None
    """What the ratio is of; None without a ratio, and of the baseline."""
    baseline: bool = False
    ratio: float | None = None
    """How many times as fast as the baseline; None if they are not comparable."""
    ratio_interval: Interval | None = None
    verdict: SpeedVerdict | None = None
    """None for the baseline, or if there is no baseline result."""
    p: float | None = None
    """p-value for equal speed, adjusted for all rows of the command."""
    shows: float | None = None
    """The smallest difference that the runs would have detected in 80 % of cases, as a share."""
    runs_for: int | None = None
    """Runs per side needed for the requested difference."""
    why: str = ""
    """Why nothing was tested, or which test was used."""
    derived: DerivedFigure | None = None
    reasons: tuple[str, ...] = ()
    """Why they are not comparable."""
    notes: tuple[str, ...] = ()
    """Differences that are allowed."""

    @property
    def geometric_mean(self) -> float | None:
        """Return the geometric mean of its runs, in the unit of its value; None of fewer than three
        runs, or where one has no value.
        """
        spread = compute_log_spread(self.result.runs)
        if not spread:
            return None
        return convert_log_to_factor(spread.mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All results of one workload and scenario."""

    workload: str
    scenario: str | None
    metric: str
    unit: str
    comparable: bool
    """Each result is comparable with the baseline."""
    results: tuple[ComparedResult, ...]
    references: tuple[ComparedResult, ...] = ()
    """Published results for the same workload and scenario, for reference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPair:
    """A result and the baseline of its kind."""

    first: Result | None
    """None if the baseline has no result of this kind."""
    other: Result
    reasons: tuple[str, ...] = ()
    hypothesis_test: HypothesisTest | None = None
    """None if there is no ratio."""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultGroup:
    """The pairs of one kind of result."""

    workload: str
    scenario: str | None
    results: tuple[ResultPair, ...]
    references: tuple[ResultPair, ...]
    absent: tuple[str, ...]
    """Paths without a result of this kind."""


def compare_results(
    sides: Sequence[Result], paths: Sequence[str], request: CompareRequest | None = None
) -> list[Comparison]:
    """Compare the results of several paths, kind by kind, in the order of the paths; p-values are
    adjusted across the whole command.
    """
    request = request or CompareRequest()
    if request.labels is None:
        request = replace(request, labels=PathLabels(letters=assign_letters(paths)))
    groups = [
        match_group_with_baseline(kind, paths, request) for kind in group_sides_by_kind(sides)
    ]
    adjusted = iter(
        correct_p_values(
            [
                pair.hypothesis_test.p if pair.hypothesis_test else None
                for each in groups
                for pair in (*each.results, *each.references)
            ]
        )
    )
    return [build_comparison(each, adjusted, request) for each in groups]


def group_sides_by_kind(sides: Sequence[Result]) -> Iterator[list[Result]]:
    """Yield results grouped by workload and scenario, sorted by name, training first. Spelling
    variants of a name are treated as equal.
    """
    found: dict[tuple[str, str], list[Result]] = {}
    for each in sides:
        found.setdefault((fold_name(each.workload), each.scenario or ""), []).append(each)
    yield from (found[kind] for kind in sorted(found))


def match_group_with_baseline(
    sides: Sequence[Result], paths: Sequence[str], request: CompareRequest
) -> ResultGroup:
    """Pair the results of one kind with their baseline."""
    first = next(
        (each for each in sides if request.baseline in (None, each.source, each.system)), None
    )
    kind = sides[0]
    rows = sorted(
        select_rows_of_kind(
            request.references, kind.workload, sides[0].half, kind.scenario, kind.metric
        ),
        key=rank_row_by_value,
    )
    return ResultGroup(
        workload=sides[0].workload,
        scenario=sides[0].scenario,
        results=tuple(
            match_side_with_baseline(first, each, request.significance) for each in sides
        ),
        references=tuple(
            match_side_with_baseline(
                first, match_published_row(row, sides[0]), request.significance
            )
            for row in rows
        ),
        absent=tuple(
            path for path in dict.fromkeys(paths) if path not in {each.source for each in sides}
        ),
    )


def match_side_with_baseline(
    first: Result | None, other: Result, significance: SignificanceSettings
) -> ResultPair:
    """Pair a result with the baseline. For the baseline itself, check only whether it is comparable
    at all.
    """
    if first is None:
        return ResultPair(first=first, other=other, why="the baseline has no result of this kind")
    if other is first:
        return ResultPair(
            first=first, other=other, reasons=tuple(find_unfitness_reasons(first, "this"))
        )
    found, why = (
        tuple(find_incomparability_reasons(first, other)),
        explain_missing_ratio(first.made_with.asked, other.made_with.asked),
    )
    ratio = None if found or why else compute_result_ratio(first, other)
    if ratio is None:
        return ResultPair(first=first, other=other, reasons=found, why=why)
    is_higher_faster = is_higher_better(first.metric)
    return ResultPair(
        first=first,
        other=other,
        hypothesis_test=run_hypothesis_test(
            first.runs, other.runs, ratio, is_higher_faster, significance
        ),
    )


def compute_result_ratio(first: Result, other: Result) -> float | None:
    """Return how many times as fast the other result is; None if the division is impossible."""
    mine, others = first.value, other.value
    if not mine or not others:
        return None
    ratio = others / mine if is_higher_better(first.metric) else mine / others
    return ratio if 0 < ratio < inf else None


def match_published_row(row: Result, like: Result) -> Result:
    """Return a published row as a result of the same kind as another, with its factor."""
    place = replace(row.place, workload=like.workload, scenario=like.scenario)
    return replace(scale_to_headline(row), place=place)


def build_comparison(
    found: ResultGroup, adjusted: Iterator[float | None], request: CompareRequest
) -> Comparison:
    """Return the comparison of one kind with its verdicts; consumes the adjusted p-values of its
    pairs in order.
    """
    shared = choose_group_energy_kind(found)
    labels = request.labels or PathLabels()
    results = label_results(
        [build_compared_result(each, next(adjusted), request, shared) for each in found.results],
        labels,
    )
    first = found.results[0].other
    missing = NO_SUCH_POINT if first.origin.study else NO_SUCH_RESULT
    return Comparison(
        workload=found.workload,
        scenario=found.scenario,
        metric=first.metric,
        unit=first.unit,
        comparable=len(results) > 1
        and found.results[0].first is not None
        and not any(result.reasons for result in results),
        results=(
            *results,
            *(
                ComparedResult(
                    path=path,
                    label=labels.name_path(path),
                    is_named=path in labels.given,
                    absent=True,
                    notes=(missing,),
                )
                for path in found.absent
            ),
        ),
        references=tuple(
            replace(
                build_compared_result(each, next(adjusted), request, shared),
                label=", ".join(filter(None, (each.other.system, each.other.org))),
            )
            for each in found.references
        ),
    )


def label_results(
    results: Sequence[ComparedResult], labels: PathLabels
) -> tuple[ComparedResult, ...]:
    """Name each result by its path; by its system besides where its path has several of them, and
    by its system alone where only one path is read.
    """
    counts = Counter(each.path for each in results)
    is_only_path = len(labels.letters) == 1 and not labels.given

    def name_result(found: ComparedResult) -> str:
        name = labels.name_path(found.path)
        if counts[found.path] == 1:
            return name
        if is_only_path:
            return found.result.system
        return f"{name} {found.result.system}"

    return tuple(
        replace(each, label=name_result(each), is_named=each.path in labels.given)
        for each in results
    )


def choose_group_energy_kind(found: ResultGroup) -> EnergyKind | None:
    """Return the kind of energy used for the efficiencies of a group: that of the baseline, or of
    the first result with an energy.
    """
    sides = [each.other for each in found.results]
    first = found.results[0].first or next((each for each in sides if each.energy), sides[0])
    return choose_common_energy_kind(
        first.energy, [each.energy for each in sides if each is not first]
    )


def iterate_side_notes(found: ResultPair) -> Iterator[str]:
    """Yield allowed differences from the baseline, or the remark on a published row."""
    if found.first and found.first is not found.other and not found.other.origin.document:
        yield from find_allowed_differences(found.first, found.other)
    else:
        yield found.other.origin.note


def describe_efficiency_limits(
    found: ResultPair, request: CompareRequest, shared: EnergyKind | None
) -> str | None:
    """Explain why the efficiency of a result is not compared, or how rough it is; None if it is
    compared, or was not requested.
    """
    if request.per is None or request.per.basis is not FigureBasis.WATT:
        return None
    if found.first is None or found.first is found.other:
        return describe_energy_error(found.other.energy, shared)
    return explain_energy_mismatch(
        found.first.energy, found.other.energy, shared
    ) or describe_energy_error(found.other.energy, shared)


def build_compared_result(
    found: ResultPair, adjusted: float | None, request: CompareRequest, shared: EnergyKind | None
) -> ComparedResult:
    """Return the comparison of one result."""
    other, hypothesis_test = found.other, found.hypothesis_test
    itself = found.first is other
    ratio = hypothesis_test.ratio if hypothesis_test else None
    if itself and not found.reasons:
        ratio = 1.0
    limits = describe_efficiency_limits(found, request, shared)
    return ComparedResult(
        path=other.source,
        result=other,
        interval=estimate_value_interval(other.value, other.runs, request.significance.confidence),
        statistic=hypothesis_test.statistic if hypothesis_test else None,
        baseline=itself,
        ratio=ratio,
        ratio_interval=hypothesis_test.interval if hypothesis_test else None,
        verdict=None if itself else choose_pair_verdict(hypothesis_test, adjusted, request),
        p=adjusted,
        shows=hypothesis_test.shows if hypothesis_test else None,
        runs_for=hypothesis_test.runs_for if hypothesis_test else None,
        why=hypothesis_test.why if hypothesis_test else found.why,
        derived=request.per.compute_figure(other, shared) if request.per else None,
        reasons=found.reasons,
        notes=tuple(filter(None, [*iterate_side_notes(found), limits])),
    )


def choose_pair_verdict(
    hypothesis_test: HypothesisTest | None, adjusted: float | None, request: CompareRequest
) -> SpeedVerdict:
    """Choose the verdict on a result beside the baseline."""
    if hypothesis_test is None:
        return SpeedVerdict.NOT_TESTED
    return choose_speed_verdict(hypothesis_test, adjusted, request.significance.confidence)
