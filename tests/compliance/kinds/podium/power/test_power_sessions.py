"""Imported sessions of MLPerf Power: each kind of violation is found, a good one raises no alarm,
and its energy is scored.
"""

from pathlib import Path

import pytest
from examples import path_of
from kinds.power_session import SESSION_MUTANTS, measured
from spoiling import OFF

from compliance.judge import Judge
from compliance.kinds.podium.results import energy
from compliance.verdict import Severity


@pytest.mark.parametrize("kind", sorted(SESSION_MUTANTS))
def test_a_violation_is_found_and_gives_no_energy(tmp_path: Path, kind: str) -> None:
    """A session that does not hold must neither pass the judge nor reach a score."""
    SESSION_MUTANTS[kind](tmp_path)
    found = {
        finding.rule
        for finding in Judge().judge_path(str(path_of(tmp_path))).findings
        if finding.severity is Severity.ERROR
    }
    assert any(rule.startswith("power.session") for rule in found), found
    (run,) = tmp_path.glob("*/performance/run_1")
    assert energy.read_served_energy(run, OFF) == ()


def test_a_good_session_raises_no_alarm_and_is_an_analyzers(tmp_path: Path) -> None:
    """Also from a server in another time zone."""
    measured()(tmp_path)
    found = Judge().judge_path(str(path_of(tmp_path))).findings
    assert [
        finding
        for finding in found
        if finding.rule.startswith(("power.", "file.", "loadgen.strays"))
    ] == []
    (run,) = tmp_path.glob("*/performance/run_1")
    (one,) = energy.read_served_energy(run, OFF)
    assert (one.grade, one.scope, one.source) == ("analyzer", ("system",), "ptdaemon")
    assert one.average_w == pytest.approx(233.0, rel=0.02) and one.mlperf_mean_w == pytest.approx(
        one.average_w, rel=0.01
    )
    assert one.per_sample_j is not None


def test_a_session_in_an_entry_is_no_stray(tmp_path: Path) -> None:
    """Its folders lie where MLPerf has them, beside the runs; another file among them still belongs
    to nothing.
    """
    measured()(tmp_path)
    (entry,) = [path.parent for path in tmp_path.glob("*/performance")]
    strays = [
        finding.file
        for finding in Judge().judge_path(str(entry)).findings
        if finding.rule in ("entry.strays", "loadgen.strays")
    ]
    assert strays == []
    (entry / "performance/power/notes.txt").write_text("x\n")
    strays = [
        finding.file
        for finding in Judge().judge_path(str(entry)).findings
        if finding.rule == "entry.strays"
    ]
    assert any(file.endswith("notes.txt") for file in strays)
