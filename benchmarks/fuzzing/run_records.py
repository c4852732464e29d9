"""Readers of what a run leaves beside LoadGen's files and training logs."""

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from compliance.documents.podium import conditions, inference
from compliance.logs import telemetry
from compliance.logs.loadgen import query_times
from compliance.rules import judge_document
from fuzzing.reading import Reader, each, judged, parsed
from fuzzing.seeds import EXAMPLES, named
from submissions.campaign import audits as campaign_audits
from submissions.score.within_run import iterate_within_run_figures
from suite import registry
from suite.files.layout import AUDIT_RECORD, QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

ROUND: Final = registry.load_round()


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
    root = shutil.copytree(EXAMPLES / "audited", work / "audited")
    said = each(
        partial(judged, root),
        lambda path: campaign_audits.has_passing_audit_record(path.parent, None),
    )
    yield Reader(
        name="audit",
        file=next(root.rglob(AUDIT_RECORD)),
        seeds=named(results, AUDIT_RECORD),
        read=said,
    )
    sampled = [*named(results, "telemetry_*.jsonl"), *named(results, TELEMETRY_FILE)]
    run = shutil.copytree(EXAMPLES / "observed", work / "observed")
    yield Reader(
        name="training-telemetry",
        file=run / "telemetry_0.jsonl",
        seeds=sampled,
        read=partial(judged, run),
    )


def lines_of(name: str) -> tuple[Callable[[Path], object], ...]:
    """Read a file of lines by its parser alone, too."""
    return (
        (parsed(telemetry.read_telemetry_file),)
        if name == TELEMETRY_FILE
        else (parsed(query_times.read_query_times),)
    )


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
