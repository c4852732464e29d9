"""The results and studies that are added to a history, read as `podium compare` reads them."""

import hashlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compliance.recognition.path_kind import PathKind, recognise_path
from compliance.results.machine import format_field_value
from submissions.compare.compared_results import judge_compared_results
from submissions.compare.fitness import find_unfitness_reasons
from submissions.compare.studied import read_compared_studies
from submissions.result_index import is_study_path, locate_study
from suite.errors import JudgedError, RequestError
from suite.files.layout import compute_file_sha256
from suite.files.untrusted_files import read_untrusted_file, replace_unprintable
from suite.history.records import HistoryMachine, HistoryResult, HistorySource, SourceKind
from suite.result import (
    Figure,
    Judgement,
    Machine,
    MadeWith,
    Quality,
    Result,
    ResultOrigin,
    ResultPlace,
    scale_to_headline,
)
from suite.studies.documents import POINT_FILE, STUDY_FILE
from suite.studies.records import STUDY_RECORD_DECODER

PROCESSOR_FIELD = "host_processor_model_name"
PROCESSORS_FIELD = "host_processors_per_node"
CORES_FIELD = "host_processor_core_count"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedResult:
    """A result that may be added, and what it was read from."""

    machine: HistoryMachine
    source: HistorySource
    result: HistoryResult


def read_added_results(path: Path, machine: str | None) -> list[AddedResult]:
    """Read and judge the results of a path; JudgedError, which says why, if one of them may not be
    compared with any other, RequestError for a machine without a name. `machine` is the name to
    file them under; None: their system's.
    """
    problems: list[str] = []
    if path.exists() and is_study_path(path):
        results = read_compared_studies([path], problems)
        source = describe_study_source(path)
        record = read_untrusted_file(locate_study(path) / STUDY_FILE, STUDY_RECORD_DECODER.decode)
        study = record.kind
    else:
        results = [scale_to_headline(each) for each in judge_compared_results([path], problems)]
        source, study = describe_results_source(path), ""
    problems += [problem for each in results for problem in iterate_result_problems(each)]
    if problems:
        raise JudgedError(replace_unprintable(f"nothing was added: {problems[0]}"))
    if not results:
        raise JudgedError(f"{path}: has no figure that could be added")
    if not machine and not all(each.system.strip() for each in results):
        raise RequestError(f"{path}: states no name of its system; name it with --machine NAME")
    return [
        AddedResult(
            machine=describe_history_machine(each, machine),
            source=source,
            result=record_result(each, study),
        )
        for each in results
    ]


def describe_results_source(path: Path) -> HistorySource:
    """Return what results are read from; the hash of a bundle."""
    if path.is_file() and recognise_path(path).kind is PathKind.BUNDLE:
        return HistorySource(
            kind=SourceKind.BUNDLE, name=path.name, sha256=compute_file_sha256(path)
        )
    return HistorySource(kind=SourceKind.RESULTS, name=path.resolve().name)


def describe_study_source(path: Path) -> HistorySource:
    """Return the study that figures are read from, with the hash of its records."""
    folder = locate_study(path)
    digest = hashlib.sha256()
    for file in [folder / STUDY_FILE, *sorted(folder.rglob(POINT_FILE))]:
        digest.update(f"{file.relative_to(folder)}\0{compute_file_sha256(file)}\n".encode())
    return HistorySource(kind=SourceKind.STUDY, name=folder.name, sha256=digest.hexdigest())


def iterate_result_problems(result: Result) -> Iterator[str]:
    """Yield why a result may not be compared with any other."""
    name = f"{result.source}: {result.workload} {result.scenario or 'training'}"
    if result.judgement.unjudged:
        yield f"{name} {result.judgement.unjudged}"
    else:
        yield from (f"{name}: {each}" for each in find_unfitness_reasons(result, "it"))
        measured = [result.value, *result.runs]
        if any(each is not None and not 0 < each < math.inf for each in measured):
            yield f"{name}: has a value that is not above zero"


def describe_history_machine(result: Result, name: str | None) -> HistoryMachine:
    """Return the machine of a result, under its system's name or another one."""
    fields = result.described
    processor = format_field_value(fields.get(PROCESSOR_FIELD))
    return HistoryMachine(
        name=name or result.system,
        accelerator=result.machine.accelerator,
        accelerators=result.machine.accelerators,
        nodes=result.machine.nodes,
        processor=processor or format_field_value(result.made_with.said.get("processor")),
        processors=format_field_value(fields.get(PROCESSORS_FIELD)),
        cores=format_field_value(fields.get(CORES_FIELD)),
    )


def record_result(result: Result, study: str) -> HistoryResult:
    """Return what a history keeps of a result, or of a study of a kind."""
    made = result.made_with
    return HistoryResult(
        round=result.round,
        workload=result.workload,
        metric=result.metric,
        unit=result.unit,
        value=result.value or 0.0,
        runs=result.runs,
        scenario=result.scenario,
        study=study,
        profile=result.profile,
        division=result.division,
        org=result.org,
        system=result.system,
        engine=made.engine,
        precision=made.precision,
        served=made.served,
        batch=made.batch,
        task=made.task,
        said=drop_unknown_values(made.said),
        checkpoint_quality=made.checkpoint_quality,
        accuracy=result.accuracy,
        campaign=made.campaign,
        asked=made.asked,
        factor=result.figure.factor,
        noise=result.noise,
        date=result.origin.date,
    )


def drop_unknown_values(said: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what nobody states."""
    return {name: value for name, value in said.items() if value is not None}


def restore_result(machine: HistoryMachine, recorded: HistoryResult) -> Result:
    """Return a result as comparisons read it; a history has only such as the judge accepted."""
    return Result(
        place=ResultPlace(
            round=recorded.round,
            profile=recorded.profile,
            division=recorded.division,
            org=recorded.org,
            system=recorded.system,
            workload=recorded.workload,
            scenario=recorded.scenario,
        ),
        figure=Figure(
            metric=replace_unprintable(recorded.metric),
            unit=replace_unprintable(recorded.unit),
            value=recorded.value,
            runs=recorded.runs,
            factor=recorded.factor,
        ),
        origin=ResultOrigin(date=recorded.date, study=recorded.study),
        machine=Machine(
            accelerator=machine.accelerator,
            accelerators=machine.accelerators,
            nodes=machine.nodes,
        ),
        made_with=MadeWith(
            engine=recorded.engine,
            precision=recorded.precision,
            served=recorded.served,
            batch=recorded.batch,
            task=recorded.task,
            said=recorded.said,
            checkpoint_quality=recorded.checkpoint_quality,
            campaign=recorded.campaign,
            asked=recorded.asked,
        ),
        quality=Quality(accuracy=recorded.accuracy),
        judgement=Judgement(compliant=True),
        noise=recorded.noise,
    )
