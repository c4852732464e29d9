"""`--engine auto`: what it tries, what it takes, and that later commands keep it."""

import itertools
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from podium_fakes import chosen
from podium_fakes.drive import entry, options
from podium_fakes.engine import FakeEngine
from podium_fakes.kept import keep_ceiling, keep_checkpoint, run_folders, run_record

from harness.children import process
from harness.serving import automatic_engine, infer
from harness.serving.automatic_engine import format_engine_figures, select_accurate_engines
from harness.serving.loadgen.session import LoadedSystem
from suite import registry
from suite.cli import RunOptions
from suite.errors import MissingError
from suite.files.chosen_engine import (
    EngineFigures,
    locate_chosen_engines,
    read_chosen_engines,
)
from suite.loadgen.scenario import Scenario
from suite.terms import AUTOMATIC_ENGINE, Precision

SHORT = ("loadgen.min_duration_ms=20", "server.qps_share=0.02")
ENGINES: Mapping[str, type[FakeEngine]] = {
    "absent": chosen.AbsentEngine,
    "broken": chosen.BrokenEngine,
    "crashed": chosen.CrashedEngine,
    "fake": FakeEngine,
    "full": chosen.FullEngine,
    "linked": chosen.LinkedEngine,
    "slow": chosen.SlowEngine,
    "wrong": chosen.WrongEngine,
}


def offer_engines(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Install these engines only."""
    map_entry_points = registry.map_entry_points

    def list_offered(group: str) -> object:
        return dict.fromkeys(names) if group == registry.ENGINE_GROUP else map_entry_points(group)

    monkeypatch.setattr(registry, "map_entry_points", list_offered)
    monkeypatch.setattr(registry, "load_engine", lambda name: ENGINES[name]())
    monkeypatch.setattr(registry, "describe_engine_package", lambda name: f"{name} 1.0")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own, with a harness ceiling in it."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    keep_ceiling(tmp_path / "cache")


@pytest.fixture
def asked(tmp_path: Path) -> RunOptions:
    """A request that leaves the engine open, and a checkpoint that nearly always answers right."""
    keep_checkpoint(tmp_path / "results")
    return options(tmp_path / "results", *SHORT, engine=AUTOMATIC_ENGINE)


def count_trials(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that grows with the names of engines that are tried."""
    tried: list[str] = []
    run_in_child = automatic_engine.run_in_child

    def count(task: object, job: automatic_engine.EngineTrialJob | LoadedSystem) -> object:
        system = job if isinstance(job, LoadedSystem) else job.system
        tried.append(system.engine.name)
        return run_in_child(task, job)  # type: ignore[arg-type]

    monkeypatch.setattr(automatic_engine, "run_in_child", count)
    return tried


def test_the_fastest_is_taken_and_its_figures_are_told(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    offer_engines(monkeypatch, "absent", "fake", "slow")
    settled = automatic_engine.settle_engine("fake", asked, None)
    told = capsys.readouterr()
    assert settled == replace(asked, engine="fake")
    assert "fake: engine fake: " in told.out and ", slow " in told.out
    assert "absent" not in told.out + told.err  # what is not installed is no candidate


def test_an_engine_whose_answers_are_wrong_or_that_cannot_be_built_is_out(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    offer_engines(monkeypatch, "broken", "slow", "wrong")
    settled = automatic_engine.settle_engine("fake", asked, None)
    told = capsys.readouterr().out
    assert settled.engine == "slow"
    assert "not broken: engine broken: cannot export this network" in told
    assert "not wrong: its answers to the first samples are worse" in told


def test_only_what_serves_the_precision_is_tried(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch
):
    offer_engines(monkeypatch, "fake", "slow")
    tried = count_trials(monkeypatch)
    settled = automatic_engine.settle_engine("fake", replace(asked, precision=Precision.INT4), None)
    assert settled.engine == "fake" and tried == []  # serving it says what is missing


def test_a_later_command_keeps_the_choice_until_its_basis_changes(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch
):
    offer_engines(monkeypatch, "fake", "slow")
    tried = count_trials(monkeypatch)
    for _ in range(2):
        automatic_engine.settle_engine("fake", asked, None)
    assert tried == ["fake", "slow"]
    automatic_engine.settle_engine("fake", replace(asked, threads=0), None)
    assert tried == ["fake", "slow"] * 2
    path = locate_chosen_engines(asked.results, "fake")
    path.write_text(path.read_text().replace("latency_ns", "latency"))
    assert read_chosen_engines(asked.results, "fake") == ()
    automatic_engine.settle_engine("fake", replace(asked, threads=0), None)
    assert tried == ["fake", "slow"] * 3


def test_the_choice_is_the_same_when_it_is_recalled(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch
):
    """The fastest engine, whatever its name; choices for something else stay beside it."""
    monkeypatch.setitem(ENGINES, "a-slow", chosen.SlowEngine)  # type: ignore[arg-type]
    offer_engines(monkeypatch, "a-slow", "fake")
    tried = count_trials(monkeypatch)
    settled = {
        automatic_engine.settle_engine("fake", replace(asked, precision=precision), None).engine
        for precision in (Precision.FP32, Precision.BF16, Precision.FP32, Precision.BF16)
    }
    assert settled == {"fake"} and len(tried) == 4


def test_the_frameworks_own_engine_is_taken_if_none_is_as_good_as_the_others(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch
):
    """As with two metrics, each of which another engine has the best score in."""
    offer_engines(monkeypatch, "fake", "slow")
    monkeypatch.setattr(automatic_engine, "select_accurate_engines", lambda *_: [])
    assert automatic_engine.settle_engine("fake", asked, None).engine == "fake"


def test_an_engine_that_is_alone_is_not_tried(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    offer_engines(monkeypatch, "absent", "fake")
    tried = count_trials(monkeypatch)
    assert automatic_engine.settle_engine("fake", asked, None).engine == "fake"
    assert tried == [] and read_chosen_engines(asked.results, "fake") == ()
    assert capsys.readouterr().out == "fake: engine fake, the only one here that has fp32\n"


def test_an_engine_that_crashed_is_tried_again(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """It may have been killed, or its library is mended next; one that cannot build the networks
    stays out.
    """
    offer_engines(monkeypatch, "crashed", "fake")
    tried = count_trials(monkeypatch)
    for _ in range(2):
        assert automatic_engine.settle_engine("fake", asked, None).engine == "fake"
        told = capsys.readouterr().out
        assert "not crashed: a package is installed, but cannot be imported (ImportError: " in told
    assert tried == ["fake", "crashed"] * 2
    offer_engines(monkeypatch, "broken", "fake")
    for _ in range(2):
        automatic_engine.settle_engine("fake", asked, None)
    assert tried[4:] == ["fake", "broken"]


def put_linked_package_on_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the package that an engine imports, first on the path of children to come; return its
    file.
    """
    package = folder / "path" / chosen.LINKED_PACKAGE / "__init__.py"
    package.parent.mkdir(parents=True)
    package.write_text("")
    monkeypatch.syspath_prepend(str(package.parents[1]))
    monkeypatch.setattr(process, "templates", [])
    return package


BREAKS: Mapping[str, str] = {
    "raise ImportError('libkernels.so: cannot open shared object file')": "(ImportError: libkern",
    "raise OSError('libkernels.so: invalid ELF header')": "(OSError: libkernels.so: invalid ELF",
    "import podium_fake_kernels.lost": "missing from package podium_fake_kernels, which is broken",
    "raise SystemExit('no licence')": "cannot be imported (SystemExit: no licence)",
    "import signal; signal.raise_signal(signal.SIGSEGV)": "was ended by SIGSEGV",
}


@pytest.mark.parametrize("line, told", BREAKS.items())
def test_an_engine_that_broke_since_it_was_chosen_is_not_kept(
    asked: RunOptions,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    line: str,
    told: str,
):
    """Every later command ended in it; and once it is mended, it serves again."""
    package = put_linked_package_on_path(tmp_path, monkeypatch)
    offer_engines(monkeypatch, "linked", "slow")
    tried = count_trials(monkeypatch)
    for text, engine in (("", "linked"), (line, "slow"), ("", "linked")):
        package.write_text(text)
        shutil.rmtree(package.parent / "__pycache__", ignore_errors=True)
        assert automatic_engine.settle_engine("fake", asked, None).engine == engine
        said = capsys.readouterr().out
        assert ("fake: no longer linked: " in said) is ("fake: not linked: " in said) is bool(text)
        assert told in said or not text
    assert tried == ["linked", "slow", "linked", "linked", "slow", "linked"]


def test_a_named_engine_whose_package_is_broken_is_missing(
    asked: RunOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """As one that is not installed: nothing failed under test."""
    put_linked_package_on_path(tmp_path, monkeypatch).write_text(next(iter(BREAKS)))
    offer_engines(monkeypatch, "linked")
    with pytest.raises(MissingError, match=r"^podium_fake_kernels is installed, but cannot"):
        infer.serve_workload(
            "fake",
            replace(asked, engine="linked"),
            scenarios=(Scenario.OFFLINE,),
            mode="accuracy",
            checkpoint=None,
        )


def test_a_trial_has_the_threads_that_will_serve(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch
):
    """On cores that other programs use, further threads slow some engines down tenfold."""
    offer_engines(monkeypatch, "fake", "slow")
    counts: list[int] = []
    run_in_child = automatic_engine.run_in_child

    def count(task: object, job: automatic_engine.EngineTrialJob) -> object:
        counts.append(job.system.run.threads)
        return run_in_child(task, job)  # type: ignore[arg-type]

    monkeypatch.setattr(automatic_engine, "run_in_child", count)
    monkeypatch.setattr(automatic_engine, "measure_busy_share", lambda: 0.9)
    monkeypatch.setattr(automatic_engine, "choose_core_count", {0.9: 5}.__getitem__)
    automatic_engine.settle_engine("fake", replace(asked, threads=0), None)
    assert counts == [5, 5]


def test_what_other_programs_slow_down_does_not_count():
    """They use the cores while one engine is tried, and not while another is."""
    naps = itertools.cycle([0.1, 0.002, 0.1])
    found_s = automatic_engine.find_fastest_call_s(lambda _: time.sleep(next(naps)), [0])
    assert 0.002 <= found_s < 0.05


def test_memory_that_does_not_suffice_names_the_batch_that_does(
    asked: RunOptions, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    offer_engines(monkeypatch, "fake", "full")
    assert automatic_engine.settle_engine("fake", asked, None).engine == "fake"
    told = capsys.readouterr().out
    assert "not full: memory does not suffice for a batch of" in told
    assert "; not even one sample fits" in told


def test_a_named_engine_is_not_questioned(asked: RunOptions, monkeypatch: pytest.MonkeyPatch):
    offer_engines(monkeypatch, "fake", "slow")
    tried = count_trials(monkeypatch)
    named = replace(asked, engine="slow")
    assert automatic_engine.settle_engine("fake", named, None) == named and tried == []


def test_none_works(asked: RunOptions, monkeypatch: pytest.MonkeyPatch):
    offer_engines(monkeypatch, "broken", "broken_too")
    monkeypatch.setitem(ENGINES, "broken_too", chosen.BrokenEngine)  # type: ignore[arg-type]
    with pytest.raises(MissingError, match="cannot export this network"):
        automatic_engine.settle_engine("fake", asked, None)


@pytest.mark.slow
def test_the_run_says_which_engine_served(asked: RunOptions, monkeypatch: pytest.MonkeyPatch):
    offer_engines(monkeypatch, "fake", "slow", "wrong")
    infer.serve_workload(
        "fake", asked, scenarios=(Scenario.OFFLINE,), mode="accuracy", checkpoint=None
    )
    (folder,) = run_folders(entry(asked.results))
    assert run_record(folder).system.engine == "fake"


@pytest.mark.parametrize(
    "found, taken",
    [
        ({"a": {"top1": 0.80}, "b": {"top1": 0.7921}}, ["a", "b"]),
        ({"a": {"top1": 0.80}, "b": {"top1": 0.7919}}, ["a"]),
        ({"a": {"top1": 0.80}, "b": {}}, ["a"]),
        ({"a": {"top1": 0.70}, "b": {"top1": 0.80}}, ["b"]),
        ({"a": {"top1": 0.0}, "b": {"top1": 0.0}}, ["a", "b"]),  # 64 samples without an object
    ],
)
def test_accurate_enough(found: dict[str, dict[str, float]], taken: list[str]):
    assert select_accurate_engines(found, ("top1",), 0.99) == taken


def test_the_line_that_a_user_reads():
    trials = {
        "onnxruntime": EngineFigures(latency_ns=2.4e6, samples_per_second=500.0),
        "torch": EngineFigures(latency_ns=18.1e6, samples_per_second=200.0),
    }
    assert format_engine_figures("onnxruntime", trials) == (
        "onnxruntime: 2.4 ms a sample, 2.0 in batches, torch 18.1 and 5.0"
    )
