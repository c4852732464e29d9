"""`podium power import`: a session of MLPerf Power comes to lie beside the run that it measured,
whole or not at all.
"""

import shutil
from pathlib import Path

import pytest
from kinds.power_session import cut, halved, rehash, workflow
from kinds.records import recorded
from spoiling import OFF

from suite.cli import main
from suite.measurement.mlperf_power.session import (
    ANALYZER_LOG,
    POWER_FOLDER,
    RANGING_FOLDER,
    SESSION_FILES,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A performance run, and in `session` what the workflow wrote of it."""
    recorded(OFF)(tmp_path / "results")
    (found,) = (tmp_path / "results").glob("*/performance/run_1")
    workflow(found, tmp_path / "session")
    return found


def imported(session: Path, run: Path) -> int:
    """Call the command; its exit code."""
    with pytest.MonkeyPatch.context() as patched, pytest.raises(SystemExit) as ended:
        patched.setattr("sys.argv", ["podium", "power", "import", str(session), str(run)])
        main()
    return int(ended.value.code or 0)


def left(run: Path) -> list[str]:
    """What of a session lies beside a run, finished or not."""
    return sorted(
        path.name
        for path in [*run.parent.iterdir(), *run.iterdir()]
        if path.name.startswith((POWER_FOLDER, RANGING_FOLDER, ANALYZER_LOG))
    )


def test_a_session_is_copied_in_the_workflows_layout(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(tmp_path / "session", run) == 0
    for name in SESSION_FILES:
        assert (run.parent / name).read_bytes() == (tmp_path / "session" / name).read_bytes()
    told = capsys.readouterr().out
    assert "grade analyzer" in told and "YokogawaWT310E" in told and " W" in told


@pytest.mark.parametrize("change", [halved, cut, "another run"])
def test_a_session_that_does_not_hold_leaves_nothing(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: object
) -> None:
    """A changed file, a cut tail that was hashed again, and the logs of another run: one sentence,
    exit code 1.
    """
    session = tmp_path / "session"
    if change == "another run":
        (run / "mlperf_log_detail.txt").write_text(
            (run / "mlperf_log_detail.txt").read_text() + "\n"
        )
    elif change is cut:
        cut(session)
        rehash(session)
    else:
        halved(session)
    assert imported(session, run) == 1
    assert left(run) == [] and "nothing was copied" in capsys.readouterr().err


def test_what_is_no_session_or_no_run_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and nothing is left."""
    assert imported(tmp_path, run) == 2
    assert imported(tmp_path / "session", tmp_path) == 2
    assert left(run) == [] and capsys.readouterr().err.count("\n") == 2


def test_a_second_session_is_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first one stays whole."""
    shutil.copytree(tmp_path / "session", tmp_path / "again")
    assert imported(tmp_path / "session", run) == 0
    assert imported(tmp_path / "again", run) == 2 and "already" in capsys.readouterr().err
    assert left(run) == [POWER_FOLDER, RANGING_FOLDER, ANALYZER_LOG]
