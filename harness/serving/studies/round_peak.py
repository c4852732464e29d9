"""The search whose best run `podium infer --peak` takes as the result of the Server scenario."""

from collections.abc import Mapping
from typing import Any, Final

import click

from harness.serving.loadgen.probe import ProbeResult
from harness.serving.setup import SearchedRun, ServingSetup
from harness.serving.studies.driver import locate_study_folder, measure_settled_points
from harness.serving.studies.system import ServedSystem, StudyOptions
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario
from suite.records import SearchRecord
from suite.studies.peak import DEFAULT_PEAK_TOLERANCE, PEAK

ROUND_PEAK_VALUES: Final[Mapping[str, Any]] = {
    "scenario": Scenario.SERVER,
    "within_ms": None,
    "percentile": None,
    "budget_s": None,
    "tolerance": DEFAULT_PEAK_TOLERANCE,
}
"""The options of `podium peak` without the user's: the round's bound."""


def search_round_peak(serving_setup: ServingSetup, probe_result: ProbeResult) -> SearchedRun:
    """Search the round's own peak rate, and return its best run; JudgedError if no full run was
    VALID.
    """
    study_options = StudyOptions(values=ROUND_PEAK_VALUES)
    system = ServedSystem(
        request_name=serving_setup.request.name,
        options=serving_setup.request.options,
        study_options=study_options,
        setup=serving_setup,
    )
    system.keep_probe(serving_setup, probe_result)
    PEAK.check_request(ROUND_PEAK_VALUES, system)
    folder = locate_study_folder(PEAK, system, study_options)
    found = measure_settled_points(PEAK, system, study_options, folder)
    answer = found.answer
    for line in PEAK.describe_answer(found.request, answer, found.points):
        click.echo(line)
    if answer.valid is None:
        raise JudgedError("no full run of the search was VALID")
    proven = SearchRecord(
        invalid_qps=answer.invalid,
        runs=answer.runs,
        probes=answer.probes,
        tolerance=DEFAULT_PEAK_TOLERANCE,
    )
    return SearchedRun(folder=folder / answer.folder, rate=answer.valid, search=proven)
