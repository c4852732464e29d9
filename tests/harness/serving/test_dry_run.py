"""`podium infer --dry-run`: one query of each scenario, and nothing that stays."""

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from podium_fakes.drive import options
from podium_fakes.kept import keep_ceiling, keep_checkpoint

from harness.commands.infer import infer as command
from harness.serving import dry_run
from harness.serving.dry_run import (
    copy_engine_choices,
    select_tried_modes,
    set_up_trial,
    try_serving,
)
from suite.cli import RunOptions
from suite.errors import MachineError, RequestError
from suite.files.chosen_engine import (
    ChosenEngine,
    EngineFigures,
    read_chosen_engines,
    write_chosen_engine,
)
from suite.loadgen.scenario import Scenario
from suite.workload import Mode


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders for temporary files, which has to be empty afterwards, and for the cache."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")
    return folder


def list_files(folder: Path) -> list[tuple[Path, bytes]]:
    return sorted((path, path.read_bytes()) for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
def test_a_dry_run_sends_a_query_of_each_scenario_and_leaves_nothing(
    tmp_path: Path, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results"
    keep_checkpoint(results)
    before = list_files(tmp_path)
    found = try_serving(
        "fake", options(results), scenarios=tuple(Scenario), mode="all", checkpoint=None
    )
    told = capsys.readouterr().out
    assert "one query each of SingleStream, MultiStream, Server, Offline" in told
    (stage,) = found.stages
    assert stage.seconds is not None and 0.4 < stage.seconds < 120
    assert all(scenario.label in stage.basis for scenario in Scenario)
    assert found.disk_bytes > 10_000
    assert list_files(tmp_path) == before and list(scratch.iterdir()) == []


@pytest.mark.slow
def test_once_queries_take_long_the_others_are_estimated_by_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four single queries of a slow system took four minutes."""
    keep_checkpoint(tmp_path / "results")
    monkeypatch.setattr(dry_run, "LONG_TRIALS_S", 0.0)
    found = try_serving(
        "fake",
        options(tmp_path / "results"),
        scenarios=tuple(Scenario),
        mode="all",
        checkpoint=None,
    )
    told = capsys.readouterr().out
    assert "one query each of SingleStream, in " in told
    assert "s; MultiStream, Server, Offline estimated by that" in told
    assert all(scenario.label in found.stages[0].basis for scenario in Scenario)


@pytest.mark.slow
def test_one_mode_and_scenario_take_less_and_more_runs_take_more(tmp_path: Path) -> None:
    keep_checkpoint(tmp_path / "results")
    asked = {"scenarios": (Scenario.SERVER,), "checkpoint": None}
    lone, many = (
        try_serving("fake", options(tmp_path / "results"), mode=mode, runs=runs, **asked)  # type: ignore[arg-type]
        for mode, runs in (("accuracy", None), ("all", 50))
    )
    assert lone.seconds is not None and many.seconds is not None
    assert lone.seconds + 50 * 0.1 < many.seconds
    assert lone.disk_bytes < many.disk_bytes


def test_without_a_checkpoint_it_is_refused_as_serving_is(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(RequestError, match="no checkpoint of fake"):
        try_serving(
            "fake",
            options(tmp_path / "results"),
            scenarios=(Scenario.OFFLINE,),
            mode="all",
            checkpoint=None,
        )
    assert not (tmp_path / "results").exists() and list(scratch.iterdir()) == []


def test_too_few_runs_are_refused(tmp_path: Path) -> None:
    keep_checkpoint(tmp_path / "results")
    with pytest.raises(RequestError, match="--runs 0: Offline of profile smoke needs 1"):
        try_serving(
            "fake",
            options(tmp_path / "results"),
            scenarios=(Scenario.OFFLINE,),
            mode="all",
            checkpoint=None,
            runs=0,
        )


@pytest.mark.parametrize("words", [("--peak",), ("--endpoint", "grpc://nowhere:1")])
def test_what_it_says_nothing_about_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    asked = ["fake", "--dry-run", "--results", str(tmp_path / "results"), *words]
    outcome = CliRunner().invoke(command, asked)
    assert isinstance(outcome.exception, RequestError)
    assert f"--dry-run says nothing about {words[0]}" in str(outcome.exception)


def test_choices_of_engines_are_copied_and_the_results_keep_theirs(tmp_path: Path) -> None:
    """The runs would serve with the engine that was chosen for these results."""
    chosen = ChosenEngine(
        trials={"fake": EngineFigures(latency_ns=1.0, samples_per_second=1.0)}, basis={}
    )
    write_chosen_engine(tmp_path / "results", "fake", chosen)
    copy_engine_choices("fake", tmp_path / "results", tmp_path / "own")
    copy_engine_choices("fake", tmp_path / "nothing", tmp_path / "other")
    assert read_chosen_engines(tmp_path / "own", "fake") == (chosen,)
    assert not (tmp_path / "other").exists()


def test_with_weights_only_speed_is_estimated() -> None:
    """`podium infer --weights` asks for no accuracy."""
    assert select_tried_modes("all", "random") == (Mode.PERFORMANCE,)
    assert select_tried_modes("all", None) == tuple(Mode)
    assert select_tried_modes("accuracy", None) == (Mode.ACCURACY,)


def test_stand_ins_are_cut_and_leave_no_network_in_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What engines make of them serves nobody again; random weights are served again, uncut."""
    cut: list[str] = []

    def note_cut(workload: str, asked: RunOptions) -> RunOptions:
        cut.append(workload)
        return asked

    monkeypatch.setattr("harness.serving.dry_run.add_untrained_settings", note_cut)
    asked = options(tmp_path / "results")
    setup = set_up_trial("fake", asked, tmp_path / "a", None, None, True)
    assert cut == ["fake"]
    assert setup.system.run.engine_cache is not None
    assert setup.system.run.engine_cache.is_relative_to(tmp_path / "a")
    setup = set_up_trial("fake", asked, tmp_path / "b", None, "random", False)
    assert cut == ["fake"] and setup.system.run.engine_cache is None


def test_stand_ins_are_for_dry_runs_alone(tmp_path: Path) -> None:
    asked = ["fake", "--untrained", "--results", str(tmp_path / "results")]
    outcome = CliRunner().invoke(command, asked)
    assert "--untrained needs --dry-run" in str(outcome.exception)


def test_a_full_disk_for_temporary_files_is_one_sentence(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights are exported there, which may be large."""

    def export_nothing(*_: object) -> Path:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("harness.serving.dry_run.export_random_weights", export_nothing)
    with pytest.raises(MachineError, match="fake: the dry run failed: .*No space left on device"):
        try_serving(
            "fake",
            options(tmp_path / "results"),
            scenarios=(Scenario.OFFLINE,),
            mode="all",
            checkpoint=None,
            untrained=True,
        )
    assert list(scratch.iterdir()) == []
