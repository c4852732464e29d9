"""Studies as results: each figure of a point becomes a result, so that two studies are compared as
results are. Points are paired by what they measure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any, Final

from compliance.kinds.podium.results.traits import (
    TARGET_QPS_SETTING,
    collect_served_system_traits,
)
from submissions import compliance_check
from submissions.cells import UNITLESS
from submissions.compare.comparison import Comparison
from submissions.result_index import is_study_path, locate_study
from suite.ab.sides import AB_KIND, describe_side
from suite.columns import format_plain_value
from suite.errors import JudgedError, RequestError
from suite.loadgen.headline import (
    LATENCY_METRIC,
    SAMPLE_RATE_UNIT,
    TOKEN_RATE_UNIT,
    VALID_RUN,
    get_rate_unit,
)
from suite.loadgen.scenario import Scenario
from suite.measurement.metrics import LATENCY_PREFIX
from suite.result import (
    Figure,
    Judgement,
    Machine,
    MadeWith,
    Quality,
    Result,
    ResultOrigin,
    ResultPlace,
)
from suite.rounds.settings import select_task_settings
from suite.served_identity import drop_unstated
from suite.studies.concurrency_curve import CURVE_KIND
from suite.studies.measured import MeasuredStudy, read_measured_study
from suite.studies.own_prompts import TASK_SETTINGS
from suite.studies.precision import PRECISION_KIND
from suite.studies.precision_rows import explain_row, identify_row, name_system
from suite.studies.rates import PEAK_KIND
from suite.studies.speed import SPEED_KIND
from suite.studies.sweep import SWEEP_KIND
from suite.units import NS_PER_MS

STUDY_ROUND: Final = "podium study"
"""Stands for the round of a study's figures, which are no results of any."""
ONNX_SUFFIX: Final = ".onnx"
"""How the workload of a study of an ONNX file ends."""
ONNX_WORKLOAD: Final = "ONNX file"
"""Stands for the workload where the studies are of different ONNX files."""
ONNX_INPUT_PREFIXES: Final = ("onnx.shape.", "onnx.value.")
"""Settings of an ONNX file's inputs."""
CPU_DEVICE: Final = "cpu"
RATE_METRIC: Final = "samples_per_second"
SINGLE_STREAM_METRIC: Final = f"{LATENCY_PREFIX}p90"
RATIO_METRIC: Final = "ratio"
TOKEN_RATE_METRIC: Final = "tokens_per_second"
FIRST_TOKEN_METRIC: Final = f"{LATENCY_PREFIX}ttft_p90"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFigure:
    """One figure of one point of a study."""

    point: str
    """What it measures: points of two studies are paired by it."""
    metric: str
    unit: str
    value: float
    runs: tuple[float, ...]
    engine: str = ""
    """Of a study of several systems; empty: the study's."""
    precision: str = ""
    conditions: Mapping[str, Any] = field(default_factory=dict)
    """What must be equal."""
    traits: Mapping[str, Any] = field(default_factory=dict)
    """What may differ, and is told."""
    scores: Mapping[str, float] = field(default_factory=dict)
    asked: str = ""
    """The requested rate of Server, which was not searched for."""
    is_valid: bool = True


def iterate_speed_figures(study: MeasuredStudy, is_alone: bool) -> Iterator[PointFigure]:
    """Yield the metric of each scenario."""
    del is_alone
    for row in study.rows:
        point, figures = row.point, row.figures
        metric, unit = figures.metric, get_rate_unit(figures.metric)
        if metric == LATENCY_METRIC:
            metric, unit = f"{LATENCY_PREFIX}p{format_plain_value(figures.percentile)}", "ns"
        bound = ""
        if point.bound_ns is not None:
            bound = f" within {format_plain_value(point.bound_ns / NS_PER_MS)} ms"
        yield PointFigure(
            point=f"{point.scenario}{bound}",
            metric=metric,
            unit=unit,
            value=figures.value,
            runs=tuple(run.figures.value for run in row.studied.runs),
            conditions={
                "samples per query": point.samples_per_query,
                "equal issue": point.equal_issue,
            },
            asked=describe_asked_rate(study, point.scenario),
            is_valid=figures.verdict == VALID_RUN,
        )


def describe_asked_rate(study: MeasuredStudy, scenario: str) -> str:
    """Return the rate that Server was run at; empty of another scenario."""
    if scenario != Scenario.SERVER.label:
        return ""
    rate = study.request.settings.get(TARGET_QPS_SETTING)
    if rate:
        return f"{format_plain_value(float(rate))} samples/s"
    return "a share of a probe's rate"


def iterate_sweep_figures(study: MeasuredStudy, is_alone: bool) -> Iterator[PointFigure]:
    """Yield the rate of each batch size that was measured; of studies with one engine and number
    format each, batch sizes are paired whatever these are.
    """
    for row in study.rows:
        if row.figures is None or row.figures.samples_per_second is None:
            continue
        point = row.point
        name = f"batch {point.batch}"
        yield PointFigure(
            point=name if is_alone else f"{point.engine} {point.precision} {name}",
            metric=RATE_METRIC,
            unit=SAMPLE_RATE_UNIT,
            value=row.figures.samples_per_second,
            runs=tuple(run.figures.samples_per_second for run in row.studied.runs),
            engine=point.engine,
            precision=point.precision,
            traits={"seconds": point.seconds},
        )


def iterate_precision_figures(study: MeasuredStudy, is_alone: bool) -> Iterator[PointFigure]:
    """Yield the rate in Offline and the latency in SingleStream of each engine and number
    format.
    """
    for row in study.rows:
        system, identity = row.point.system, identify_row(row.studied)
        name = "" if is_alone else f"{name_system(system)} "
        measured = (
            ("Offline", "samples_per_second", RATE_METRIC, SAMPLE_RATE_UNIT),
            ("SingleStream", "p90_ns", SINGLE_STREAM_METRIC, "ns"),
        )
        for scenario, figure, metric, unit in measured:
            value = row.find_figure(figure)
            runs = [getattr(run.figures, figure) for run in row.studied.runs]
            if value is not None:
                yield PointFigure(
                    point=f"{name}{scenario}",
                    metric=metric,
                    unit=unit,
                    value=value,
                    runs=tuple(each for each in runs if each is not None),
                    engine=drop_unstated(identity.engine.text) or "",
                    precision=drop_unstated(identity.precision.text) or "",
                    scores=row.figures.scores,
                    is_valid=not explain_row(row.studied),
                )


def iterate_peak_figures(study: MeasuredStudy, is_alone: bool) -> Iterator[PointFigure]:
    """Yield the highest VALID rate, if the search found one."""
    del is_alone
    request, answer = study.request, study.answer
    if answer.valid is None:
        return
    is_server = request.scenario == Scenario.SERVER.label
    yield PointFigure(
        point=f"{request.scenario} peak",
        metric="highest_valid_rate",
        unit="queries/s" if is_server else "samples/query",
        value=answer.valid,
        runs=(answer.valid,),
        conditions={
            "percentile": request.percentile,
            "bound ms": request.bound_ns / NS_PER_MS,
            "bound per token ms": request.per_token_ns and request.per_token_ns / NS_PER_MS,
            "least queries": request.min_queries,
            "least ms": request.min_duration_ms,
        },
        traits={"lowest INVALID rate": answer.invalid, "tolerance": request.tolerance},
    )


def iterate_curve_figures(study: MeasuredStudy, is_alone: bool) -> Iterator[PointFigure]:
    """Yield the tokens per second of all users and the time to the first token of each point."""
    del is_alone
    for row in study.rows:
        named = (
            ("", "system_tps", TOKEN_RATE_METRIC, TOKEN_RATE_UNIT, 1),
            (" first token", "ttft_p90_ms", FIRST_TOKEN_METRIC, "ns", NS_PER_MS),
        )
        for name, figure, metric, unit, factor in named:
            runs = [getattr(run.figures, figure) for run in row.studied.runs]
            yield PointFigure(
                point=f"concurrency {row.point.concurrency}{name}",
                metric=metric,
                unit=unit,
                value=getattr(row.figures, figure) * factor,
                runs=tuple(each * factor for each in runs),
            )


def iterate_ab_figures(study: MeasuredStudy, is_alone: bool) -> Iterator[PointFigure]:
    """Yield how many times as fast as A side B is: the geometric mean of the blocks that count."""
    del is_alone
    request, answer = study.request, study.answer
    ratios = [each.ratio for each in answer.steps if not each.disturbed]
    if ratios:
        yield PointFigure(
            point=f"{request.scenario}, A {describe_side(request.a)}, B {describe_side(request.b)}",
            metric=RATIO_METRIC,
            unit=UNITLESS,
            value=geometric_mean(ratios),
            runs=tuple(ratios),
            traits={"verdict": answer.verdict},
            is_valid=not answer.lost,
        )


FIGURE_LISTS: Final[Mapping[str, Callable[[MeasuredStudy, bool], Iterator[PointFigure]]]] = {
    AB_KIND: iterate_ab_figures,
    CURVE_KIND: iterate_curve_figures,
    SPEED_KIND: iterate_speed_figures,
    SWEEP_KIND: iterate_sweep_figures,
    PRECISION_KIND: iterate_precision_figures,
    PEAK_KIND: iterate_peak_figures,
}
"""Kind of study -> its figures. `podium compare` compares curves as curves, point by point only in
a history.
"""


def read_compared_studies(paths: Sequence[Path], problems: list[str]) -> list[Result]:
    """Read and judge studies of one kind and workload as results; RequestError for paths that
    cannot be compared. What the judge objects to is added to `problems`.
    """
    for path in paths:
        if not is_study_path(path):
            raise RequestError(f"{path}: no study, and studies only compare with studies")
    studies: dict[Path, MeasuredStudy] = {}
    for path in paths:
        try:
            studies[path] = read_measured_study(locate_study(path))
        except JudgedError as error:
            problems.append(str(error))
    check_study_kinds(studies)
    workload = choose_common_workload(studies)
    is_alone = all(len(list_systems(each)) <= 1 for each in studies.values())
    return [
        result
        for path, study in studies.items()
        for result in iterate_study_results(path, study, workload, is_alone, problems)
    ]


def check_study_kinds(studies: Mapping[Path, MeasuredStudy]) -> None:
    """RequestError for studies of several kinds, or of one that is not compared."""
    kinds = {path: study.kind.name for path, study in studies.items()}
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{path} is a study of {kind}" for path, kind in kinds.items())
        raise RequestError(f"{told}: only studies of one kind compare")
    for path, kind in kinds.items():
        if kind not in FIGURE_LISTS:
            raise RequestError(
                f"{path}: a study of {kind}; podium compares studies of"
                f" {', '.join(sorted(FIGURE_LISTS))}"
            )


def choose_common_workload(studies: Mapping[Path, MeasuredStudy]) -> str:
    """Return the workload of all studies, or what stands for different ONNX files; RequestError for
    studies of different workloads.
    """
    workloads = {path: study.subject.workload for path, study in studies.items()}
    if len(set(workloads.values())) == 1:
        return next(iter(workloads.values()))
    if all(each.endswith(ONNX_SUFFIX) for each in workloads.values()):
        return ONNX_WORKLOAD
    told = ", ".join(f"{path} is of {workload}" for path, workload in workloads.items())
    raise RequestError(f"{told}: only studies of one workload, or of ONNX files, compare")


def list_systems(study: MeasuredStudy) -> set[str]:
    """List the names of a study's systems; one of a study of a single system."""
    return {study.kind.describe_run(study.request, row.point).own_name for row in study.rows}


def iterate_study_results(
    path: Path, study: MeasuredStudy, workload: str, is_alone: bool, problems: list[str]
) -> Iterator[Result]:
    """Yield each figure of a study as a result; one whose study the judge objects to is not
    compliant.
    """
    errors = compliance_check.list_error_sentences(path)
    if errors:
        problems.append(f"{path}: does not pass `podium check`: {errors[0]}")
    base = build_study_result(path, study, workload)
    for each in FIGURE_LISTS[study.kind.name](study, is_alone):
        traits = base.made_with
        yield replace(
            base,
            place=replace(base.place, scenario=each.point),
            figure=Figure(metric=each.metric, unit=each.unit, value=each.value, runs=each.runs),
            made_with=replace(
                traits,
                engine=each.engine or traits.engine,
                precision=each.precision or traits.precision,
                task={**traits.task, **each.conditions},
                asked=each.asked,
                said={**traits.said, **each.traits, "score": each.scores or None},
            ),
            quality=Quality(accuracy=each.scores),
            judgement=Judgement(compliant=each.is_valid and not errors),
        )


def build_study_result(path: Path, study: MeasuredStudy, workload: str) -> Result:
    """Return what all figures of a study have in common."""
    subject, first = study.subject, study.first
    task: dict[str, Any] = {}
    said: dict[str, Any] = {"processor": study.record.machine.processor or None}
    if first is not None:
        settings = first.record.settings
        task = {"sample_count": first.record.system.sample_count, **select_task_settings(settings)}
        task |= {
            name: value for name, value in settings.items() if name.startswith(ONNX_INPUT_PREFIXES)
        }
        if subject.prompts:
            task |= {name: settings.get(name) for name in TASK_SETTINGS}
        said |= collect_served_system_traits(first.record)
    if workload == ONNX_WORKLOAD:
        said = {"file": subject.workload, **said, "checkpoint": None}
    if study.kind.has_several_systems:
        said["framework"] = None
    return Result(
        place=ResultPlace(
            round=STUDY_ROUND,
            profile=subject.profile,
            system=subject.system,
            workload=workload,
        ),
        origin=ResultOrigin(source=str(path), study=locate_study(path).name),
        machine=describe_study_machine(study),
        made_with=MadeWith(
            engine=drop_unstated(subject.engine) or None,
            precision=drop_unstated(subject.precision) or None,
            served=subject.served,
            task=task,
            said=said,
        ),
    )


def describe_study_machine(study: MeasuredStudy) -> Machine:
    """Return the machine of a study: it states accelerators only by running on none."""
    if study.subject.device == CPU_DEVICE and not study.endpoints:
        return Machine(accelerators=0, nodes=1)
    return Machine()


def sort_study_comparisons(
    found: Sequence[Comparison], sides: Sequence[Result]
) -> list[Comparison]:
    """Sort the comparisons of studies by the order of their points."""
    order = list(dict.fromkeys(each.scenario for each in sides))
    return sorted(found, key=lambda each: order.index(each.scenario))
