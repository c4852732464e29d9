"""Readers of what a run leaves beside LoadGen's files and training logs."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from compliance.kinds.podium.documents import conditions, inference
from compliance.kinds.podium.results.within_run import iterate_within_run_figures
from compliance.logs import telemetry
from compliance.logs.loadgen import log_probabilities, query_times
from compliance.rules import judge_document
from fuzzing.reading import Reader, each, judged, parsed
from fuzzing.seeds import EXAMPLES, named
from submissions.campaign import audits as campaign_audits
from submissions.report.records import telemetry as reported_telemetry
from submissions.report.records.queries import read_recorded_queries
from submissions.report.records.tokens import read_recorded_tokens
from suite import registry
from suite.audits.names import AuditTest
from suite.files.layout import (
    AUDIT_RECORD,
    LOGPROB_FILE,
    QUERY_RECORD_FILE,
    REFERENCE_LOGPROB_FILE,
    TELEMETRY_FILE,
)
from suite.loadgen.scenario import Scenario
from suite.measurement.host_load import read_host_load
from suite.studies.documents import POINT_FILE, STUDY_FILE
from suite.studies.likelihoods import (
    build_said_classes,
    compare_run_with_reference,
    list_likelihood_cells,
    tell_likelihoods,
)
from suite.studies.measured import read_measured_study
from suite.studies.run_facts import read_run_facts
from suite.workload import Mode

ROUND: Final = registry.load_round()
LAST_NS: Final = (1 << 63) - 1
"""Behind the end of any run, UTC."""


def beside(results: Path, work: Path) -> Iterator[Reader]:
    """What a run leaves beside LoadGen's files and training logs, read with the run that it belongs
    to.
    """
    example = next(EXAMPLES.glob(f"recorded-gpu/**/{QUERY_RECORD_FILE}")).parent
    for name in (QUERY_RECORD_FILE, TELEMETRY_FILE):
        run = shutil.copytree(example, work / f"beside-{name}" / "run_1")
        yield Reader(
            name=name,
            file=run / name,
            seeds=named(results, name),
            read=each(recorded, *lines_of(name)),
        )
    yield Reader(
        name="host-load",
        file=work / "host-load" / TELEMETRY_FILE,
        seeds=named(results, TELEMETRY_FILE),
        read=lambda path: read_host_load(path.parent, 0, LAST_NS),
    )
    root = shutil.copytree(EXAMPLES / "audited", work / "audited")
    said = each(
        partial(judged, root),
        lambda path: campaign_audits.is_passed_test(path.parent, AuditTest.TEST04, None),
    )
    yield Reader(
        name="audit",
        file=next(root.rglob(AUDIT_RECORD)),
        seeds=named(results, AUDIT_RECORD),
        read=said,
    )
    study = next(shutil.copytree(EXAMPLES / "peak", work / "searched").rglob(STUDY_FILE))
    for path in (study, next(study.parent.rglob(POINT_FILE))):
        yield Reader(
            name=f"study-{path.name}",
            file=path,
            seeds=[path.read_bytes()],
            read=each(partial(judged, study.parent), lambda _: read_measured_study(study.parent)),
        )
    sampled = [*named(results, "telemetry_*.jsonl"), *named(results, TELEMETRY_FILE)]
    run = shutil.copytree(EXAMPLES / "observed", work / "observed")
    yield Reader(
        name="training-telemetry",
        file=run / "telemetry_0.jsonl",
        seeds=sampled,
        read=partial(judged, run),
    )


def likelihoods(work: Path) -> Iterator[Reader]:
    """How likely a system and PyTorch find the answers of an accuracy run, read with the run."""
    parsers = {
        LOGPROB_FILE: log_probabilities.read_said_logprobs,
        REFERENCE_LOGPROB_FILE: log_probabilities.read_reference_logprobs,
    }
    for name, parser in parsers.items():
        root = shutil.copytree(EXAMPLES / "likely", work / f"likely-{name}")
        (path,) = root.rglob(name)
        yield Reader(
            name=name,
            file=path,
            seeds=[path.read_bytes()],
            read=each(parsed(parser), partial(judged, root), studied_likelihoods),
            share=0.3,
        )


def studied_likelihoods(path: Path) -> object:
    """Compare a run's likelihoods as a study does."""
    run = read_run_facts(path.parent)
    found = compare_run_with_reference(run)
    return (build_said_classes(run), list_likelihood_cells(found), tell_likelihoods(found))


def lines_of(name: str) -> tuple[Callable[[Path], object], ...]:
    """Read a file of lines by its parser alone, too, and as a report does."""
    return (
        (parsed(telemetry.read_telemetry_file), reported_telemetry.read_telemetry_readings)
        if name == TELEMETRY_FILE
        else (parsed(query_times.read_query_times), reported_queries)
    )


def reported_queries(path: Path) -> object:
    """Read the queries, and the tokens beside them, as a report draws them."""
    queries = read_recorded_queries(path)
    return queries and read_recorded_tokens(path.parent, queries)


def recorded(path: Path) -> object:
    """Judge a Server run with its records, and cut it into slices."""
    run = inference.read_loadgen_run(path.parent, Mode.PERFORMANCE, Scenario.SERVER, ROUND)
    found = [
        finding
        for document in (run, conditions.build_serving_conditions(run))
        for finding in judge_document(document, ROUND.name)
    ]
    assert all(finding.found and finding.required for finding in found)
    return list(iterate_within_run_figures([path.parent], Scenario.SERVER))
