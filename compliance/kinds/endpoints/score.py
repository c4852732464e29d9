"""Scores of single runs of the Endpoints client: what its summary states."""

from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.kinds.endpoints.documents.headline import compute_rate_headline
from compliance.kinds.endpoints.documents.result_summary import RunConfig
from compliance.kinds.endpoints.documents.run import EndpointsRun, read_endpoints_run
from compliance.kinds.endpoints.recognition import find_endpoints_summary
from compliance.results.indexed_result import IndexedResult
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario
from suite.result import PUBLISHED_PROFILE, Figure, Result

LOAD_SCENARIOS: Final = {"max_throughput": Scenario.OFFLINE, "poisson": Scenario.SERVER}
"""Load pattern of the client -> the scenario of LoadGen that it is."""
CONCURRENCY_PATTERN: Final = "concurrency"


def read_client_result(folder: Path) -> EndpointsRun:
    """Read the files of a run; JudgedError if the folder is none."""
    summary = find_endpoints_summary(folder)
    if summary is None:
        raise JudgedError(f"{folder}: no run of the Endpoints client")
    return read_endpoints_run(folder, summary)


def index_client_run(folder: Path) -> IndexedResult:
    """Return the place of a run of no round: its model, and the scenario that it is, or is nearest
    to.
    """
    run = read_client_result(folder)
    pattern = run.stated_config.load_pattern.type or ""
    model = run.config.find_value("model_params", "name") if run.config else None
    return IndexedResult(
        folder=folder,
        organisation_folder=None,
        system="",
        workload=model if isinstance(model, str) and model else folder.name,
        scenario=LOAD_SCENARIOS.get(pattern, Scenario.SERVER),
    )


def describe_load(config: RunConfig) -> str:
    """Name how requests were issued: LoadGen's scenario, or the client's pattern."""
    pattern = config.load_pattern
    if scenario := LOAD_SCENARIOS.get(pattern.type or ""):
        return scenario.label
    if pattern.type == CONCURRENCY_PATTERN and pattern.target_concurrency:
        return f"{CONCURRENCY_PATTERN} {pattern.target_concurrency}"
    return pattern.type or "unknown load"


def read_client_values(result: IndexedResult, round_name: str) -> Result:
    """Read a run: tokens per second if the client counted them, else queries per second."""
    run = read_client_result(result.folder)
    summary = run.summary
    found = None
    if summary is not None:
        counts_tokens = summary.output_sequence_lengths.total is not None
        found = compute_rate_headline(summary, counts_tokens)
    if found is None:
        raise JudgedError(f"{run.path}: no duration, counts or rate in it")
    place = result.build_place(round_name, PUBLISHED_PROFILE)
    return Result(
        place=replace(place, scenario=describe_load(run.stated_config), benchmark=result.workload),
        figure=Figure(
            metric=found.metric,
            unit=found.unit,
            value=found.value,
            runs=(found.value,),
            basis=found.basis,
            whole_run=found.whole_run,
            whole_answers_per_s=found.whole_answers_per_s,
            late_tokens=found.late_tokens,
        ),
    )
