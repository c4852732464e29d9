"""Each kind of violation of power and energy is found by a rule about power, and a good run raises
no alarm.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
from examples import path_of
from kinds.power import (
    MUTANTS,
    RANGE_UJ,
    fallen,
    late,
    of,
    powered,
    relabelled,
    rooted,
    swinging,
)
from kinds.powered_training import TRAINED_MUTANTS, trained
from spoiling import OFF, put

from compliance.judge import Judge
from compliance.verdict import Severity
from suite.files.layout import RUN_RECORD
from suite.loadgen.detail_log import read_detail_log
from suite.measurement.run_energy import LoadGenPower, read_loadgen_power


@pytest.mark.parametrize("kind", sorted(MUTANTS | TRAINED_MUTANTS))
def test_a_violation_is_found(tmp_path: Path, kind: str) -> None:
    (MUTANTS | TRAINED_MUTANTS)[kind](tmp_path)
    path = tmp_path if kind in TRAINED_MUTANTS else path_of(tmp_path)
    found = {
        finding.rule
        for finding in Judge().judge_path(str(path)).findings
        if finding.severity is Severity.ERROR
    }
    assert any(rule.startswith("power.") for rule in found), found


def test_a_good_run_raises_no_alarm(tmp_path: Path) -> None:
    """A meter and two counters, one of which begins anew during the run."""
    powered()(tmp_path)
    assert [
        finding
        for finding in Judge().judge_path(str(path_of(tmp_path))).findings
        if finding.rule.startswith(("power.", "telemetry.", "file."))
    ] == []


def test_an_idle_machine_before_the_run_raises_no_alarm(tmp_path: Path) -> None:
    """Its watts are what the readings of the first five seconds give, and a slow meter's edges are
    no matter.
    """
    powered(idle=True)(tmp_path)
    power = power_of(tmp_path)
    idle = power.compute_idle_energy()
    assert [each.name for each in idle] == [each.name for each in power.compute_energy()[0]]
    assert [round(each.average_w) for each in idle[:1]] == [243]
    assert power_findings(tmp_path) == []


def test_a_fault_of_the_readings_is_told_once_where_the_idle_machine_was_read_too(
    tmp_path: Path,
) -> None:
    """The run and the idle machine before it share their readings."""
    powered(rooted, idle=True)(tmp_path)
    assert [rule for rule, *_ in power_findings(tmp_path)].count("power.rehearsal") == 1


def test_a_counter_that_falls_is_told_once_where_the_idle_machine_was_read_too(
    tmp_path: Path,
) -> None:
    powered(fallen, idle=True)(tmp_path)
    assert [rule for rule, *_ in power_findings(tmp_path)].count("power.counter") == 1


def test_a_call_that_the_readings_tell_is_told(tmp_path: Path) -> None:
    """A GPU's sensor says which of the library's functions it was read by; so does the energy."""
    call = "nvmlDeviceGetPowerUsage"
    powered(lambda lines: lines[0]["channels"][1].update(call=call))(tmp_path)
    calls = [each.call for each in power_of(tmp_path).compute_energy()[0]]
    assert calls == [call, *[""] * (len(calls) - 1)]
    assert power_findings(tmp_path) == []


def test_a_counter_that_was_reset_costs_its_energy_and_not_the_run(tmp_path: Path) -> None:
    """It gives no energy: that is how a run is kept."""
    powered(fallen)(tmp_path)
    found = [
        finding
        for finding in Judge().judge_path(str(path_of(tmp_path))).findings
        if finding.rule.startswith("power.")
    ]
    assert {(finding.rule, finding.severity) for finding in found} == {
        ("power.counter", Severity.WARNING)
    }


def test_a_good_training_run_raises_no_alarm(tmp_path: Path) -> None:
    """Its energy is what its readings give from run_start to run_stop, as the judge computes it."""
    trained()(tmp_path)
    assert [
        finding
        for finding in Judge().judge_path(str(tmp_path)).findings
        if finding.rule.startswith(("power.", "telemetry.", "file.", "training."))
    ] == []


def test_a_log_that_was_not_finished_names_no_readings(tmp_path: Path) -> None:
    """A run whose weights were not exported ends before its readings are named."""
    trained()(tmp_path)
    log = tmp_path / "result_0.txt"
    lines = log.read_text().splitlines(keepends=True)
    ends = ('"key": "telemetry_sha256"', '"key": "checkpoint_sha256"')
    log.write_text("".join(each for each in lines if not any(end in each for end in ends)))
    found = {each.rule for each in Judge().judge_path(str(tmp_path)).findings}
    assert "training.reference" in found and not [
        each for each in found if each.startswith("power.")
    ]


def test_a_record_that_states_an_energy_is_refused(tmp_path: Path) -> None:
    """The readings alone give it: a figure beside them could say anything."""
    powered()(tmp_path)
    put(energy=[])(next(tmp_path.glob(f"**/performance/run_1/{RUN_RECORD}")))
    found = Judge().judge_path(str(path_of(tmp_path))).findings
    assert [(each.rule, each.severity) for each in found if "energy" in each.found] == [
        ("file.shape", Severity.ERROR)
    ]


def test_an_accuracy_run_has_no_readings_of_power(tmp_path: Path) -> None:
    """Energy and performance are of one run."""
    powered()(tmp_path)
    (run,) = tmp_path.glob("*/performance/run_1")
    accuracy = tmp_path / "entry/accuracy"
    accuracy.parent.mkdir()
    shutil.copytree(run, accuracy)
    found = Judge().judge_path(str(accuracy)).findings
    assert "power.same_run" in {each.rule for each in found}


def test_a_bad_example_breaks_twenty_things_in_all() -> None:
    """The rules are worth no more than the violations that they were tried on."""
    assert len(MUTANTS) >= 20


def power_of(folder: Path) -> LoadGenPower:
    """The power of a serving run, as every command reads it."""
    (run,) = folder.glob("*/performance/run_1")
    return read_loadgen_power(run, OFF, read_detail_log(run).values.get)


def power_findings(folder: Path) -> list[tuple[str, Severity, str]]:
    """What the rules about power find in a serving run."""
    return [
        (each.rule, each.severity, each.found)
        for each in Judge().judge_path(str(path_of(folder))).findings
        if each.rule.startswith("power.")
    ]


def read_twice_at_the_end(lines: list[dict[str, Any]]) -> None:
    """The sampler's last two readings lie 0.3 ms apart, and the counter was refreshed in
    between.
    """
    last = of(lines, 2)[-1]
    lines.insert(-1, {**last, "t": last["t"] + 300_000, "e": (last["e"] + 11_800_000) % RANGE_UJ})
    lines[-1]["end"]["readings"][2] += 1


def test_two_readings_in_quick_succession_are_no_jump(tmp_path: Path) -> None:
    """11.8 J within 0.3 ms are 39,333 W; within the second before, 130 W."""
    powered(read_twice_at_the_end)(tmp_path)
    assert power_findings(tmp_path) == []


def test_a_counter_that_jumps_after_the_run_is_odd_and_costs_no_energy(tmp_path: Path) -> None:
    """The run's energy does not rest on a reading after the last one that its window needs."""
    powered(lambda lines: of(lines, 2)[-1].update(e=5 * 10**10))(tmp_path)
    ((name, severity, found),) = power_findings(tmp_path)
    assert (name, severity) == ("power.counter", Severity.WARNING) and "rose by" in found


@pytest.mark.parametrize("fact", ["clock_offset_ns", "clock_doubt_ns", "limit_w", "range_uj"])
def test_a_number_of_400_digits_is_a_finding_and_no_crash(tmp_path: Path, fact: str) -> None:
    """What was read beside it is no readings any more, and not what the record names."""
    powered(lambda lines: lines[0]["channels"][2].update({fact: 10**400}), named=False)(tmp_path)
    ((name, severity, found),) = power_findings(tmp_path)
    assert (name, severity) == ("power.same_run", Severity.ERROR)
    assert found.startswith("the readings ")


@pytest.mark.parametrize("end", [False, True])
def test_a_clock_of_400_digits_is_a_finding_and_no_crash(tmp_path: Path, end: bool) -> None:
    powered(
        lambda lines: (lines[-1]["end"] if end else lines[0])["clocks_ns"].__setitem__(1, 10**400),
        named=False,
    )(tmp_path)
    assert ("power.same_run", Severity.ERROR) in [each[:2] for each in power_findings(tmp_path)]


def test_a_sensor_that_moves_by_its_last_digit_alone_is_stuck(tmp_path: Path) -> None:
    """33 W and a microwatt are 33 W."""
    powered(swinging)(tmp_path)
    ((name, severity, found),) = power_findings(tmp_path)
    assert (name, severity) == ("power.stuck", Severity.WARNING) and "readings of 33 to 33" in found


def test_a_sensor_that_reads_the_same_before_and_after_the_run_is_stuck(tmp_path: Path) -> None:
    """As high idle as busy: a sensor with noise of a percent that does not know of the run."""
    powered(
        lambda lines: [
            line.update(p=33_000_000 + 300_000 * (place % 2))
            for place, line in enumerate(of(lines, 1))
        ]
    )(tmp_path)
    ((name, severity, found),) = power_findings(tmp_path)
    assert (name, severity) == ("power.stuck", Severity.WARNING) and "before and after it" in found


def test_a_counter_that_does_not_count_is_stuck(tmp_path: Path) -> None:
    powered(lambda lines: [line.update(e=5) for line in of(lines, 3)])(tmp_path)
    assert ("power.stuck", Severity.WARNING) in [each[:2] for each in power_findings(tmp_path)]


def test_an_error_at_the_edges_of_more_than_a_tenth_is_told(tmp_path: Path) -> None:
    """The meter was not read for 1.6 s around the begin of a run of 5.5 s."""
    powered(late)(tmp_path)
    ((name, severity, found),) = power_findings(tmp_path)
    assert (name, severity) == ("power.edge", Severity.WARNING) and "at the edges" in found


@pytest.mark.parametrize("grade", ["meter", "sensor", "counter"])
def test_a_plugins_source_may_have_any_grade_but_an_analyzers(tmp_path: Path, grade: str) -> None:
    """Somebody else's source is no violation."""
    scope = "system" if grade == "meter" else "module"
    powered(relabelled("acme", grade, name="acme:1", scope=[scope], number=1))(tmp_path)
    assert power_findings(tmp_path) == []
