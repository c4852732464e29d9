"""Each kind of violation of power and energy is found by a rule about power, and a good run raises no alarm."""

from pathlib import Path

import pytest
from examples import path_of
from kinds.power import MUTANTS, fallen, powered
from kinds.powered_training import TRAINED_MUTANTS, trained

from compliance.judge import Judge
from compliance.verdict import Severity


@pytest.mark.parametrize("kind", sorted(MUTANTS | TRAINED_MUTANTS))
def test_a_violation_is_found(tmp_path: Path, kind: str) -> None:
    (MUTANTS | TRAINED_MUTANTS)[kind](tmp_path)
    path = tmp_path if kind in TRAINED_MUTANTS else path_of(tmp_path)
    found = {finding.rule for finding in Judge().result(str(path)).findings if finding.severity is Severity.ERROR}
    assert any(rule.startswith("power.") for rule in found), found


def test_a_good_run_raises_no_alarm(tmp_path: Path) -> None:
    """A meter and two counters, one of which begins anew during the run."""
    powered()(tmp_path)
    assert [finding for finding in Judge().result(str(path_of(tmp_path))).findings if finding.rule.startswith(("power.", "telemetry.", "file."))] == []


def test_a_counter_that_was_reset_costs_its_energy_and_not_the_run(tmp_path: Path) -> None:
    """The record tells no energy of it, and says why: that is how a run is kept."""
    powered(fallen)(tmp_path)
    found = [finding for finding in Judge().result(str(path_of(tmp_path))).findings if finding.rule.startswith("power.")]
    assert {(finding.rule, finding.severity) for finding in found} == {("power.counter", Severity.WARNING)}


def test_a_good_training_run_raises_no_alarm(tmp_path: Path) -> None:
    """Its energy is what its readings give from run_start to run_stop, as the judge computes it."""
    trained()(tmp_path)
    assert [finding for finding in Judge().result(str(tmp_path)).findings if finding.rule.startswith(("power.", "telemetry.", "file.", "training."))] == []


def test_a_log_from_before_energy_was_told_is_judged_as_before(tmp_path: Path) -> None:
    """Older logs have readings beside them and no word of energy; that is no violation."""
    trained()(tmp_path)
    log = tmp_path / "result_0.txt"
    log.write_text("".join(line for line in log.read_text().splitlines(keepends=True) if '"key": "energy"' not in line))
    assert [finding for finding in Judge().result(str(tmp_path)).findings if finding.rule.startswith("power.")] == []


def test_a_bad_example_breaks_twenty_things_in_all() -> None:
    """The rules are worth no more than the violations that they were tried on."""
    assert len(MUTANTS) >= 20
