"""Runs that issue each sample equally often: what the real LoadGen does is what the judge repeats."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compliance.kinds.podium.documents.inference import LoadGenRun, read_loadgen_run
from compliance.rules import load_rules
from suite import registry
from suite.files.layout import DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.scenario import Scenario
from suite.rounds import Profile, ScenarioRow
from suite.workload import Mode

ROUND = registry.load_round()
RULES = {
    key: rule
    for key, rule in load_rules("podium").items()
    if key.startswith("loadgen.") and key != "loadgen.binding"
}
SAMPLES = 23
PROGRAM = """
import ctypes, json, sys, time
from dataclasses import replace

from harness.serving.loadgen.test_settings import (
    LoadGenSchedule, build_test_settings, import_loadgen,
)
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

folder, scenario, mode, samples, least, duration_ms, seeds, equal = json.loads(sys.argv[1])
lg = import_loadgen()
answer = ctypes.create_string_buffer(4)

def issue(queries):
    time.sleep(2e-3 * duration_ms if scenario == "offline" else 0)
    lg.QuerySamplesComplete(
        [lg.QuerySampleResponse(query.id, ctypes.addressof(answer), 4) for query in queries]
    )

settings = build_test_settings(
    LoadGenSchedule(
        scenario=Scenario(scenario),
        mode=Mode(mode),
        qsl_rng_seed=seeds[0],
        sample_index_rng_seed=seeds[1],
        schedule_rng_seed=seeds[2],
        accuracy_log_rng_seed=5,
        sampled_answers=1000 if mode == "performance" else 0,
        percentile=99.0,
        bound_ns=10**9,
        min_duration_ms=duration_ms,
        min_queries=least,
        samples_per_query=1,
        rate=1000.0,
        expected_latency_ns=1000,
        equal_issue=equal,
    )
)
output = lg.LogOutputSettings()
output.outdir, output.copy_summary_to_stdout = folder, False
logs = lg.LogSettings()
logs.log_output = output
sut = lg.ConstructSUT(issue, lambda: None)
qsl = lg.ConstructQSL(samples, samples, lambda _: None, lambda _: None)
lg.StartTestWithLogSettings(sut, qsl, settings, logs, "")
"""


def issue_samples(
    folder: Path, scenario: Scenario, mode: Mode, least: int, duration_ms: int, equal: bool = True
) -> None:
    """Run LoadGen as `podium infer` does."""
    rules = ROUND.loadgen
    seeds = rules.qsl_rng_seed, rules.sample_index_rng_seed, rules.schedule_rng_seed
    told = json.dumps([str(folder), scenario, mode, SAMPLES, least, duration_ms, seeds, equal])
    subprocess.run([sys.executable, "-c", PROGRAM, told], check=True, capture_output=True)


@pytest.fixture
def equal_row(monkeypatch: pytest.MonkeyPatch) -> ScenarioRow:
    """The row that a run belongs to; its record, which would say so, is another test's."""
    rows = ROUND.benchmark("resnet50").inference[Profile.SMOKE].scenarios
    row = replace(rows[Scenario.SERVER], min_duration_ms=1, min_queries=1, equal_issue=True)
    monkeypatch.setattr(LoadGenRun, "rule", property(lambda _: row))
    return row


def judge(folder: Path, scenario: Scenario, mode: Mode) -> dict[str, list[str]]:
    """Return what the rules of LoadGen's files find, by rule."""
    run = read_loadgen_run(folder, mode, scenario, ROUND)
    found = {key: [fault.found for fault in rule.check(run)] for key, rule in RULES.items()}
    return {key: faults for key, faults in found.items() if faults}


OTHERS = {
    "loadgen.early_stopping",
    "loadgen.sampling",
    "loadgen.strays",
    "loadgen.target",
    "loadgen.valid",
}
"""Rules that these runs break by being short, and by other settings than the row's."""


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    ("scenario", "least", "duration_ms"),
    [
        (Scenario.SERVER, 60, 1),  # three rounds drawn, three issued
        (Scenario.SERVER, 10, 100),  # one round drawn, issued several times
        (Scenario.OFFLINE, 60, 1),
        (Scenario.OFFLINE, 23, 100),
    ],
)
def test_what_loadgen_issues_is_repeated(
    tmp_path: Path,
    equal_row: ScenarioRow,
    scenario: Scenario,
    mode: Mode,
    least: int,
    duration_ms: int,
) -> None:
    """Samples, counts, times of arrival, the summary's note."""
    issue_samples(tmp_path, scenario, mode, least, duration_ms)
    assert judge(tmp_path, scenario, mode).keys() <= OTHERS


@pytest.mark.parametrize("scenario", [Scenario.SERVER, Scenario.OFFLINE])
def test_a_run_that_does_not_issue_equally_is_found(
    tmp_path: Path, equal_row: ScenarioRow, scenario: Scenario
) -> None:
    issue_samples(tmp_path, scenario, Mode.PERFORMANCE, 60, 1, equal=False)
    found = judge(tmp_path, scenario, Mode.PERFORMANCE)
    assert found["loadgen.settings"] == ["effective_sample_concatenate_permutation False"]


def test_another_order_is_found(tmp_path: Path, equal_row: ScenarioRow) -> None:
    """The samples of a run without equal counts under a log that claims them."""
    issue_samples(tmp_path, Scenario.SERVER, Mode.PERFORMANCE, 60, 1, equal=False)
    log = tmp_path / DETAIL_LOG
    old = '_sample_concatenate_permutation", "value": false'
    assert log.read_text().count(old) == 2
    log.write_text(log.read_text().replace(old, old.replace("false", "true")))
    found = judge(tmp_path, Scenario.SERVER, Mode.PERFORMANCE)
    assert "loadgen.draws" in found and "loadgen.settings" not in found


def test_the_note_on_equal_counts_belongs_to_such_runs(
    tmp_path: Path, equal_row: ScenarioRow
) -> None:
    """A line that LoadGen did not write."""
    issue_samples(tmp_path, Scenario.SERVER, Mode.PERFORMANCE, 60, 1, equal=False)
    summary = tmp_path / SUMMARY_LOG
    summary.write_text(summary.read_text() + "samples_per_query value\n")
    found = judge(tmp_path, Scenario.SERVER, Mode.PERFORMANCE)
    assert found["loadgen.summary"] == ["'samples_per_query value'"]
