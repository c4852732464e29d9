"""The campaign: which steps are called with which words, what is skipped, and what a changed
request leads to.

train, infer and check are stand-ins that leave the files that the real ones leave; the real ones
run in tests/end_to_end.
"""

import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import pytest
from click.testing import CliRunner

from compliance.verdict import Finding
from submissions import compliance_check
from submissions.campaign import audits as campaign_audits
from submissions.campaign import run as campaign
from submissions.campaign.next_step import RESUME_NOTE, SERVING_NOTE
from submissions.campaign.run import format_common_arguments, list_outermost_folders
from submissions.commands.run import run
from submissions.result_index import UNPACKED_BUNDLES
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import convert_to_final_path
from suite.errors import JudgedError, MissingError, PodiumError, RequestError
from suite.files.layout import ResultsEntry
from suite.loadgen.scenario import Scenario
from suite.process.signals import Interrupted, Terminated
from suite.rounds.settings import collect_workload_settings, read_chosen_settings, resolve_settings
from suite.terms import Division, Profile
from suite.workload import Workload


class Stage:
    """What the stand-ins do, and what they were told."""

    def __init__(self, results: Path, **builders: Callable[..., None]) -> None:
        self.home, self.builders = results, builders
        self.calls: list[tuple[str, ...]] = []
        self.misses = self.is_interrupted = False
        self.broken: set[str] = set()
        self.work_in(results)

    def work_in(self, results: Path) -> None:
        """Take the results folder that a step is told."""
        self.results = results
        self.trainer = ResultsEntry(
            results=results, division=Division.OPEN, org="unaffiliated", system="host-torch-bf16"
        )
        self.server = ResultsEntry(
            results=results, division=Division.OPEN, org="unaffiliated", system="host-torch-fp32"
        )

    @property
    def nonce(self) -> str:
        return str(
            json.loads((self.results / ".podium" / "resnet50" / "campaign.json").read_text())[
                "nonce"
            ]
        )

    def train(self, words: list[str]) -> None:
        """Leave a set, or the state of an unfinished one."""
        if "--resume" not in words:
            shutil.rmtree(self.trainer.locate_benchmark("resnet"), ignore_errors=True)
            self.keep(secrets.token_hex(16), words, {})
        if self.is_interrupted:
            raise KeyboardInterrupt
        self.builders["system"](self.trainer)
        self.builders["log"](
            self.trainer.locate_training_log("resnet", 0), campaign_nonce=self.nonce
        )
        self.keep(self.nonce, words, {"0": "over"})
        if self.misses:
            raise JudgedError("resnet50: the target was missed")

    def keep(self, nonce: str, words: list[str], endings: dict[str, str]) -> None:
        """Write the harness's own state of the set."""
        named = {
            "profile": "smoke",
            "org": "unaffiliated",
            "framework": "torch",
            "input": "default",
            "data": None,
            "system": self.trainer.system,
        }
        identity = named | {f"setting {key}": value for key, value in self.settings(words).items()}
        seed = int(words[words.index("--seed") + 1]) if "--seed" in words else 77
        state = self.results / ".podium" / "resnet50" / "campaign.json"
        state.parent.mkdir(parents=True, exist_ok=True)
        state.write_text(
            json.dumps(
                {
                    "nonce": nonce,
                    "seed": seed,
                    "runs": 1,
                    "identity": identity,
                    "endings": endings,
                    "logs": "x",
                }
            )
        )

    def settings(self, words: list[str]) -> dict[str, Any]:
        """Fill in the settings as the harness does."""
        round = registry.load_round()
        given = [word for word in words if "=" in word]
        return resolve_settings(
            round,
            "resnet50",
            Profile.SMOKE,
            read_chosen_settings(
                collect_workload_settings(round, round.benchmark("resnet50")), None, given
            ),
        )

    def infer(self, words: list[str]) -> None:
        """Leave the runs of a scenario, or of all; interrupted, those of the first two and half of
        the third.
        """
        chosen = (
            [Scenario(words[words.index("--scenario") + 1])]
            if "--scenario" in words
            else [*Scenario]
        )
        self.builders["system"](self.server)
        settings = self.settings(words)
        for number, scenario in enumerate(chosen):
            if "performance" not in words:
                self.serve(
                    self.server.locate_accuracy_run("resnet50", scenario),
                    scenario,
                    "accuracy",
                    settings,
                )
            if self.is_interrupted and number == 2:
                raise KeyboardInterrupt
            self.serve(
                self.server.locate_performance_run("resnet50", scenario),
                scenario,
                "performance",
                {"server.target_qps": 3.5} | settings,
            )

    def serve(self, folder: Path, scenario: Scenario, mode: str, settings: dict[str, Any]) -> None:
        """Leave one run's folder in place of an earlier one."""
        shutil.rmtree(folder, ignore_errors=True)
        self.builders["run"](
            folder, self.server, scenario, mode, nonce=self.nonce, settings=settings
        )

    def check(self, words: list[str]) -> int:
        """Accept."""
        return 0

    def steps(self) -> list[str]:
        """Say what was called, with the scenario and mode, and forget it."""
        found = [
            " ".join(
                [
                    call[0],
                    *(
                        word
                        for word in call
                        if word in [*Scenario, "accuracy", "performance", "all", "--resume"]
                    ),
                ]
            )
            for call in self.calls
        ]
        self.calls.clear()
        return found


@pytest.fixture
def stage(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make_log: Callable[..., None],
    make_run: Callable[..., None],
    make_system: Callable[..., None],
    objections: list[Finding],
    objection: Finding,
) -> Stage:
    """Put the stand-ins in place; everything else of the registry stays, and the judge dislikes
    what `broken` names.
    """
    stage = Stage(tmp_path / "results", log=make_log, run=make_run, system=make_system)
    real = registry.load_entry_point

    def resolve(group: str, kind: str, name: str) -> Any:
        if group == registry.WORKLOAD_GROUP and name in registry.map_entry_points(group):
            return Workload(name=name, training="", inference="", score="")
        if group != registry.COMMAND_GROUP or name == "pack":
            return real(group, kind, name)

        def step(words: tuple[str, ...]) -> object:
            stage.calls.append((name, *words))
            if "--results" in words:
                stage.work_in(Path(words[words.index("--results") + 1]))
            return getattr(stage, name)(list(words))

        rest = click.Argument(["words"], nargs=-1, type=click.UNPROCESSED)
        return click.Command(
            name, callback=step, params=[rest], context_settings={"ignore_unknown_options": True}
        )

    def findings(path: Path, kind: object = None, judge: object = None) -> tuple[Finding, ...]:
        return (objection,) if stage.broken & set(path.parts) else ()

    monkeypatch.setattr(registry, "load_entry_point", resolve)
    monkeypatch.setattr(compliance_check, "judge_path", findings)
    monkeypatch.setattr(compliance_check, "list_shared_errors", lambda result, judge: ())
    return stage


def go(stage: Stage, *words: str, workload: str = "resnet50") -> list[str]:
    result = CliRunner().invoke(
        run,
        [workload, "--results", str(stage.home), *words],
        catch_exceptions=False,
        standalone_mode=False,
    )
    stage.work_in(stage.home)
    return result.stdout.splitlines()


def interrupted(stage: Stage, *words: str) -> None:
    stage.is_interrupted = True
    with pytest.raises(click.Abort):
        go(stage, *words)
    stage.is_interrupted = False
    stage.steps()


def test_a_campaign_trains_serves_checks_packs_and_ends_with_the_bundle(stage: Stage) -> None:
    lines = go(stage)
    bundle = stage.results / "bundles" / "resnet50-smoke-host-torch-fp32.tar.zst"
    assert lines[-1] == f"bundle: {bundle}"
    assert bundle.is_file()
    assert [line for line in lines if line.startswith("bundle: ")] == lines[-1:]
    assert any("time" in line or "minutes" in line for line in lines[:-1])
    assert stage.steps() == ["train", "infer", "check"]


def test_the_options_reach_each_step_as_they_were_typed(stage: Stage) -> None:
    go(
        stage,
        "--seed",
        "3",
        "--runs",
        "2",
        "--set",
        "data.workers=2",
        "--set",
        "batching.workers=2",
        "--threads",
        "2",
    )
    train, infer, check = stage.calls
    for call in (train, infer):
        text = " ".join(call)
        assert f"--results {stage.results}" in text
        assert "--set data.workers=2 --set batching.workers=2" in text
        assert "--threads 2" in text
        assert "--precision" not in text
    assert train[-4:] == ("--seed", "3", "--runs", "2")
    assert "--seed" not in infer
    assert check[1].endswith("host-torch-bf16/resnet")
    assert len(check) == 6


@pytest.mark.slow
def test_a_finished_campaign_is_not_run_again_and_gives_the_same_bundle(stage: Stage) -> None:
    first = Path(go(stage)[-1].removeprefix("bundle: "))
    before = first.read_bytes()
    stage.steps()
    assert go(stage)[-1] == f"bundle: {first}"
    assert stage.steps() == ["check"]
    assert first.read_bytes() == before


def test_an_interrupted_training_is_resumed(stage: Stage) -> None:
    interrupted(stage)
    go(stage)
    assert stage.steps() == ["train --resume", "infer", "check"]


@pytest.mark.slow
def test_a_campaign_that_ended_before_training_began_is_not_resumed_from_older_state(
    stage: Stage,
) -> None:
    """A set that lay here before must not be taken for the campaign's own."""
    go(stage, "--seed", "1")
    stage.steps()
    state = stage.results / ".podium" / "run-resnet50.json"
    document = json.loads(state.read_text()) | {"stage": "running", "earlier": [stage.nonce]}
    state.write_text(json.dumps(document))
    go(stage, "--seed", "1")
    assert stage.steps() == ["train", "infer", "check"]


def test_a_training_that_podium_train_began_is_taken_up(stage: Stage) -> None:
    """`podium train` was stopped; the next `podium run` that asks for the same goes on with it."""
    stage.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        stage.train(["--seed", "5"])
    stage.is_interrupted = False
    go(stage)
    assert stage.steps() == ["train --resume", "infer", "check"]


def test_a_training_that_podium_train_finished_is_taken_up(stage: Stage) -> None:
    stage.train(["--seed", "5"])
    go(stage, "--seed", "5", "--device", "auto")
    assert stage.steps() == ["infer", "check"]


@pytest.mark.parametrize(
    "words",
    [
        ["--seed", "6"],
        ["--runs", "2"],
        ["--set", "data.picture_size=64"],
        ["--org", "else"],
        ["--system", "else"],
        ["--profile", "quick", "--data", "."],
        ["--data", "."],
        ["--threads", "1"],
    ],
)
def test_a_training_of_something_else_is_not_taken_up(stage: Stage, words: list[str]) -> None:
    stage.train(["--seed", "5"])
    with suppress(JudgedError):  # the stand-ins know one organisation alone
        go(stage, *words)
    assert stage.steps()[0] == "train"


def test_a_step_that_leaves_nothing_is_told(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("train", "infer"):
        monkeypatch.setattr(stage, name, lambda words: None)
    with pytest.raises(JudgedError, match="nothing in .* belongs to this campaign"):
        go(stage)


def test_a_training_that_missed_its_target_is_not_taken_up(stage: Stage) -> None:
    stage.train(["--seed", "5"])
    stage.broken = {"resnet"}
    go(stage)
    assert stage.steps()[0] == "train"


@pytest.mark.slow
def test_results_that_were_deleted_are_made_anew(stage: Stage) -> None:
    go(stage)
    stage.steps()
    shutil.rmtree(stage.results / "open")
    go(stage)
    assert stage.steps() == ["train", "infer", "check"]


@pytest.mark.slow
def test_a_set_that_the_judge_refuses_is_shown_and_the_next_campaign_begins_anew(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not trained again unasked, not served, and not the end of all campaigns here."""
    go(stage)
    stage.steps()
    stage.broken = {"resnet"}
    with monkeypatch.context() as patch, pytest.raises(JudgedError):
        patch.setattr(stage, "check", lambda words: 1)
        go(stage)
    assert stage.steps() == ["check"]
    stage.broken = set()
    go(stage)
    assert stage.steps() == ["train", "infer", "check"]


@pytest.mark.slow
def test_interrupted_serving_goes_on_with_what_is_missing(stage: Stage) -> None:
    go(stage)
    shutil.rmtree(stage.server.locate_benchmark("resnet50"))
    stage.steps()
    interrupted(stage)
    go(stage)
    assert stage.steps() == ["infer server performance", "infer offline all", "check"]


@pytest.mark.slow
def test_a_run_that_the_judge_refuses_is_served_again(stage: Stage) -> None:
    go(stage)
    stage.steps()
    stage.broken = {"Server"}
    go(stage)
    assert stage.steps() == ["infer server all", "check"]


@pytest.mark.slow
def test_a_run_that_loadgen_calls_invalid_is_done_again_without_its_accuracy_run(
    stage: Stage,
) -> None:
    go(stage)
    stage.steps()
    folder = stage.server.locate_performance_run("resnet50", Scenario.SERVER)
    log = folder / "mlperf_log_detail.txt"
    log.write_text(log.read_text().replace('"VALID"', '"INVALID"'))
    stage.broken = {"Server"}
    go(stage)
    assert stage.steps() == ["infer server performance", "check"]


def test_a_missed_target_ends_the_campaign_without_a_bundle_and_the_next_begins_anew(
    stage: Stage,
) -> None:
    stage.misses = True
    with pytest.raises(JudgedError, match="missed"):
        go(stage)
    assert not list(stage.results.rglob("*.tar.zst"))
    stage.misses = False
    stage.steps()
    go(stage)
    assert stage.steps() == ["train", "infer", "check"]


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["--seed", "2"], "seed 1, not 2"),
        ([], "seed 1, not None"),
        (["--seed", "1", "--profile", "quick", "--data", "."], "profile smoke, not quick"),
        (["--seed", "1", "--set", "data.picture_size=64"], "data.picture_size 32, not 64"),
        (["--seed", "1", "--set", "batching.workers=2"], "batching.workers 1, not 2"),
        (["--seed", "1", "--org", "else"], "org unaffiliated, not else"),
    ],
)
def test_an_unfinished_campaign_is_not_gone_on_with_under_other_options(
    stage: Stage, words: list[str], key: str
) -> None:
    interrupted(stage, "--seed", "1")
    with pytest.raises(RequestError, match=key):
        go(stage, *words)
    assert stage.steps() == []


def test_the_spelling_of_a_setting_does_not_matter(stage: Stage, tmp_path: Path) -> None:
    interrupted(stage, "--set", "data.workers=2")
    (tmp_path / "settings.toml").write_text("[data]\nworkers = 2\n")
    go(stage, "--config", str(tmp_path / "settings.toml"))
    assert stage.steps()[0] == "train --resume"


@pytest.mark.slow
def test_advice_of_an_invalid_run_can_be_followed_without_training_again(stage: Stage) -> None:
    """Server's rate matters to Server's performance run alone; the rest stays."""
    go(stage)
    stage.steps()
    go(stage, "--set", "server.target_qps=2")
    assert stage.steps() == ["infer server performance", "check"]


@pytest.mark.slow
def test_another_batch_size_serves_every_scenario_again(stage: Stage) -> None:
    go(stage)
    stage.steps()
    go(stage, "--set", "batching.max_batch=8")
    assert stage.steps() == ["infer", "check"]


@pytest.mark.slow
def test_another_seed_after_a_finished_campaign_begins_a_new_one(stage: Stage) -> None:
    go(stage, "--seed", "1")
    stage.steps()
    go(stage, "--seed", "2")
    assert stage.steps()[0] == "train"


def test_all_goes_on_after_a_workload_that_missed_its_target(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.misses = True
    points = registry.map_entry_points
    monkeypatch.setattr(
        registry,
        "map_entry_points",
        lambda group: (
            {"resnet50": 1, "resnet": 2} if group == registry.WORKLOAD_GROUP else points(group)
        ),
    )
    benchmarks = {
        **registry.load_round().benchmarks,
        "resnet": registry.load_round().benchmark("resnet50"),
    }
    round = replace(registry.load_round(), benchmarks=benchmarks)
    monkeypatch.setattr(registry, "load_round", lambda name="podium-v1": round)
    with pytest.raises(JudgedError, match="missed(.|\n)*missed"):
        go(stage, workload="all")
    assert stage.steps() == ["train", "train"]


def test_all_runs_a_campaign_of_each_of_the_seven(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with the name of its workload, one after the other."""
    begun: list[str] = []

    def begin(name: str, *arguments: object, **options: object) -> Path:
        begun.append(name)
        raise JudgedError(f"{name} missed its target")

    monkeypatch.setattr(campaign, "run_single_campaign", begin)
    with pytest.raises(JudgedError, match="llama missed its target"):
        go(stage, workload="all")
    own = {"gnmt", "llama", "maskrcnn", "minigo", "resnet50", "ssd", "transformer"}
    assert own <= set(begun) and len(begun) == len(set(begun))


def test_a_refusal_of_the_judge_ends_the_campaign_before_packing(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage, "check", lambda words: 1)
    with pytest.raises(JudgedError, match="podium check exited with code 1"):
        go(stage)
    assert not list(stage.results.rglob("*.tar.zst"))


def test_a_command_that_leaves_by_exit_counts_as_its_code(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step from another package may end the way programs do."""
    monkeypatch.setattr(stage, "check", lambda words: sys.exit(1))
    with pytest.raises(JudgedError, match="podium check exited with code 1"):
        go(stage)


def test_a_failing_audit_does_not_keep_the_next_from_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tests that are lacking run, without meters, and all that failed are named in the end."""
    called: list[tuple[str, ...]] = []

    def failing(_: object, *words: str) -> None:
        called.append(words)
        raise JudgedError(words[-1])

    lacked = {Scenario.SERVER: ["TEST04", "TEST05"], Scenario.OFFLINE: ["all"]}
    asked: Any = SimpleNamespace(
        workload="resnet50",
        options=replace(drive(tmp_path), meter="cat"),
        find_own_results=list,
        read_training_nonce=str,
    )
    monkeypatch.setattr(campaign_audits, "collect_missing_audits", lambda results, nonce: lacked)
    monkeypatch.setattr(campaign, "run_podium_command", failing)
    assert campaign.run_audit_step(asked) == ["TEST04", "TEST05", "all"]
    assert [words[-3:] for words in called] == [
        (each.value, "--test", test) for each, tests in lacked.items() for test in tests
    ]
    assert not any({"--meter", "--power"} & set(words) for words in called)


def test_what_this_machine_lacks_is_told_with_its_own_exit_code(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(words: list[str]) -> None:
        raise MissingError("resnet50 needs torch: pip install '.[run]'")

    monkeypatch.setattr(stage, "train", lacking)
    with pytest.raises(MissingError, match=r"pip install '.\[run\]'"):
        go(stage)


@pytest.mark.slow
def test_a_named_system_is_looked_for_under_its_slug(stage: Stage) -> None:
    go(stage, "--system", "Host Torch FP32")
    stage.steps()
    go(stage, "--system", "Host Torch FP32")
    assert stage.steps() == ["check"]


@pytest.mark.slow
def test_another_engine_is_served_beside_the_first_without_training_again(stage: Stage) -> None:
    go(stage)
    stage.steps()
    shutil.rmtree(stage.server.locate_benchmark("resnet50"))
    go(stage, "--engine", "torch")
    assert stage.steps() == ["infer", "check"]


def test_a_folder_is_checked_once_though_set_and_scenarios_lie_in_it() -> None:
    folders = {Path("a/b"), Path("a/b/Server"), Path("a/c/Server"), Path("a/bc")}
    assert list_outermost_folders(folders) == [Path("a/b"), Path("a/bc"), Path("a/c/Server")]


def test_options_are_spelled_as_a_user_would(tmp_path: Path) -> None:
    """Every common option that has a value, and none that has not."""
    words = format_common_arguments(drive(tmp_path))
    assert words[words.index("--set") : words.index("--set") + 4] == [
        "--set",
        "a=1",
        "--set",
        "b=2",
    ]
    assert words[words.index("--system-file") + 1] == str(tmp_path / "s.toml")
    assert "--data" not in words
    assert "--precision" not in words


def drive(results: Path) -> RunOptions:
    return RunOptions(
        profile=Profile.SMOKE,
        framework="torch",
        engine="torch",
        input="default",
        data=None,
        results=results,
        device="cpu",
        precision=None,
        threads=0,
        config=None,
        assignments=("a=1", "b=2"),
        org="acme",
        system=None,
        system_file=results / "s.toml",
    )


def test_an_unknown_workload_is_offered_the_nearest(stage: Stage) -> None:
    with pytest.raises(RequestError, match="did you mean 'resnet50'"):
        go(stage, workload="resnet5")


def test_an_unknown_setting_is_refused_before_anything_starts(stage: Stage) -> None:
    with pytest.raises(RequestError, match="did you mean 'data.workers'"):
        go(stage, "--set", "data.worker=2")
    assert stage.steps() == []


@pytest.mark.parametrize("content", [b"", b"{}", b"\xff", b'{"asked": 1}'])
def test_a_state_that_cannot_be_read_is_told(stage: Stage, content: bytes) -> None:
    path = stage.results / ".podium" / "run-resnet50.json"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(RequestError, match="cannot be read"):
        go(stage)


def test_a_results_path_that_is_a_file_is_a_wrong_request(stage: Stage) -> None:
    stage.results.write_text("a file")
    with pytest.raises(RequestError, match="Not a directory|File exists"):
        go(stage)


@pytest.mark.parametrize("step", ["train", "infer"])
def test_a_signal_is_told_with_the_way_to_go_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Each step knows its own command alone; the user typed `podium run`, and types it again."""

    def interrupt(words: list[str]) -> None:
        try:
            raise Interrupted("interrupted by SIGINT")
        except Interrupted as error:
            raise Interrupted(f"resnet50: {error}; `podium {step} resnet50` goes on") from error

    monkeypatch.setattr(stage, step, interrupt)
    with pytest.raises(
        Interrupted,
        match=(
            "^resnet50: interrupted by SIGINT; finished steps are kept; run the same command"
            " to resume$"
        ),
    ):
        go(stage)


@pytest.mark.parametrize(
    "error",
    [
        JudgedError("the LoadGen process ended"),
        MissingError("no torch"),
        RuntimeError("a broken pipe"),
    ],
)
def test_an_error_behind_a_signal_is_told_as_the_signal(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The signal that broke a step was told as its fault: with `all`, the next workload began, and
    the way to go on was not told.
    """

    def break_by_signal(words: list[str]) -> None:
        with suppress(Interrupted):
            os.kill(os.getpid(), signal.SIGTERM)
        raise error

    monkeypatch.setattr(stage, "infer", break_by_signal)
    with pytest.raises(
        Terminated,
        match=(
            "^resnet50: interrupted by SIGTERM; finished steps are kept; run the same command"
            " to resume$"
        ),
    ):
        go(stage)


def test_a_bundle_that_cannot_be_opened_takes_nothing_from_the_others(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was cut behind the campaign's back ended the summary of all."""
    good = Path(go(stage)[-1].removeprefix("bundle: "))
    cut = good.with_name("cut.tar.zst")
    cut.write_bytes(good.read_bytes()[:-99])
    capsys.readouterr()
    campaign.print_campaign_summary([cut, good])
    told = capsys.readouterr().out.splitlines()
    assert f"report: {good.parent / good.name.removesuffix('.tar.zst')}.html" in told
    assert told[-2:] == [f"bundle: {cut}", f"bundle: {good}"] and not UNPACKED_BUNDLES


def test_what_was_judged_is_told_of_the_name_that_it_has_now(
    tmp_path: Path, objection: Finding
) -> None:
    """A bundle is judged as a partial file, and scored under its name."""
    before, now = tmp_path / "a.partial", tmp_path / "a.tar.zst"
    found = tuple(
        replace(objection, file=str(file))
        for file in (before, before / "open/x/log.txt", "elsewhere")
    )
    assert [
        each.file for each in compliance_check.rename_bundle_findings((found, before), now)
    ] == [
        str(now),
        str(now / "open/x/log.txt"),
        "elsewhere",
    ]
    assert compliance_check.rename_bundle_findings((found, before), before) == found


@pytest.mark.parametrize(
    ("error", "note"),
    [
        (JudgedError("SingleStream performance run 1 is INVALID"), SERVING_NOTE),
        (MissingError("no torch"), RESUME_NOTE),
    ],
)
def test_a_failure_ends_with_the_way_to_go_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, error: PodiumError, note: str
) -> None:
    """After minutes of work nobody was told whether they were lost."""

    def fail(words: list[str]) -> None:
        raise error

    monkeypatch.setattr(stage, "infer", fail)
    with pytest.raises(type(error), match=f"^{error}; {note}$"):
        go(stage)


def test_a_wrong_request_is_told_as_it_is(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a signal ended goes on by itself."""

    def refuse(words: list[str]) -> None:
        raise RequestError("no such device")

    monkeypatch.setattr(stage, "infer", refuse)
    outcome = CliRunner().invoke(
        run, ["resnet50", "--results", str(stage.results)], standalone_mode=False
    )
    assert (
        isinstance(outcome.exception, RequestError) and str(outcome.exception) == "no such device"
    )


def test_the_judge_of_a_replacing_campaign_knows_where_its_files_will_be(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check printed paths in a folder that was gone when the command ended."""
    seen: list[str] = []

    def check(words: list[str]) -> int:
        seen.extend(map(convert_to_final_path, words))
        return 0

    monkeypatch.setattr(stage, "check", check)
    go(stage, "--seed", "1")
    go(stage, "--seed", "2")
    assert len(stage.calls) == 6 and any(".podium" in word for word in stage.calls[-1])
    assert seen and all(Path(path).exists() and ".podium" not in path for path in seen)


def test_a_replacing_campaign_that_missed_its_target_says_where_its_files_are(
    stage: Stage,
) -> None:
    go(stage, "--seed", "1")
    stage.misses, stage.broken = True, {"resnet", "resnet50"}
    result = CliRunner().invoke(
        run, ["resnet50", "--results", str(stage.home), "--seed", "2"], standalone_mode=False
    )
    assert isinstance(result.exception, JudgedError)
    told = result.stdout.splitlines()[-1]
    gone, now = told.split("what is named in ")[1].split(" is now in ")
    assert not Path(gone).exists() and Path(now).is_dir()
