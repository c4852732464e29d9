"""`podium ab` with processes that leave made runs: what it decides, keeps, continues and refuses."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click
import pytest
from click.testing import CliRunner, Result
from examples import result_of
from making import write_truth
from making_ab import steady, write_side_run

from compliance.verdict import Severity
from submissions.ab import driver
from submissions.ab.driver import name_study_folder
from submissions.ab.processes import ChildRun, KnownSide, SideError
from submissions.commands.ab import ab
from suite.ab.sides import AbPoint, AbRequest
from suite.errors import JudgedError, MissingError, PodiumError, RequestError, TemporaryError
from suite.files.layout import DETAIL_LOG
from suite.process.signals import Interrupted
from suite.records import read_system_record, write_system_record

Speed = Callable[[AbPoint, int], float]
WORDS: Final = (
    "resnet50",
    "--threads",
    "2",
    "--b",
    "env.ACME_FAST=1",
    "--seed",
    "7",
    "--seconds",
    "5",
)


SERVER_WORDS: Final = ("--scenario", "server", "--a")


class FakeProcesses:
    """Leaves made runs, in the order in which they are asked for."""

    def __init__(self, folder: Path, speed: Speed = steady) -> None:
        self.folder, self.speed, self.number = folder, speed, 0
        self.spoil: Callable[[AbPoint, Path], None] = lambda point, place: None
        self.asked: list[AbPoint] = []
        self.packages: dict[str, dict[str, str]] = {}
        self.known: list[KnownSide] = []

    @contextmanager
    def run_side(
        self, request: AbRequest, point: AbPoint, results: Path, known: KnownSide
    ) -> Iterator[ChildRun]:
        self.number += 1
        self.asked.append(point)
        self.known.append(known)
        home = self.folder / str(self.number)
        factor = self.speed(point, self.number)
        place = home / write_side_run(home, request, point, self.number, factor)
        self.spoil(point, place)
        truth = write_truth(home / "truth")
        description = home / "system.json"
        description.write_text(json.dumps({"packages": self.packages.get(point.side, {})}))
        yield ChildRun(
            folder=place, system_folder=place.parent, truth=truth, description=description
        )
        shutil.rmtree(home)


@pytest.fixture
def processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeProcesses:
    fake = FakeProcesses(tmp_path / "made")
    monkeypatch.setattr(driver, "run_side", fake.run_side)
    monkeypatch.setattr(driver.time, "monotonic", lambda: 9.0 * fake.number)
    return fake


def run_ab(results: Path, *words: str) -> Result:
    return CliRunner().invoke(ab, [*WORDS, "--results", str(results), *words])


def read_answer(results: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run_ab(results, "--format", "json", *words).stdout)
    return found["answer"]


def list_errors(results: Path) -> list[str]:
    (folder,) = (results / "studies").iterdir()
    return [each.rule for each in result_of(folder).findings if each.severity is Severity.ERROR]


def test_the_faster_side_is_told_and_the_judge_agrees(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    done = run_ab(tmp_path / "r")
    assert "B is faster by 25." in done.output, done.output
    assert done.exit_code == 0
    assert not list_errors(tmp_path / "r")
    assert processes.known[0] == KnownSide()
    assert processes.known[-1].threads == 2
    assert processes.known[-1].rate > 0


def test_both_sides_have_the_threads_of_the_first_run(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    words = ["resnet50", "--b", "env.ACME_FAST=1", "--seconds", "5"]
    done = CliRunner().invoke(ab, [*words, "--results", str(tmp_path / "r")])
    assert [each.threads for each in processes.known[:3]] == [0, 2, 2]
    assert "A: as the command says of both (torch, fp32, cpu, 2 CPU threads)" in done.output


def test_packages_in_which_two_installations_differ_are_told(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    processes.packages = {
        "a": {"numpy": "2.3.0", "onnxruntime": "1.25.1"},
        "b": {"numpy": "2.3.0", "onnxruntime": "1.31.1"},
    }
    done = run_ab(tmp_path / "r")
    assert "onnxruntime: 1.31.1 in B, 1.25.1 in A\n" in done.output
    assert "numpy" not in done.output
    assert not list_errors(tmp_path / "r")


def test_a_side_that_names_its_threads_does_not_speak_for_the_other(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    words = ["resnet50", "--a", "threads=2", "--seconds", "5", "--minutes", "0.2"]
    CliRunner().invoke(ab, [*words, "--results", str(tmp_path / "r")])
    assert [each.threads for each in processes.known[:2]] == [0, 0]


def test_own_prompts_are_another_comparison_than_the_workloads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = set()
    monkeypatch.setattr(driver, "run_ab", lambda asked, **_: names.add(name_study_folder(asked)))
    for more in ((), ("--prompts", "8x8"), ("--scenario", "single-stream")):
        words = ("llama", "--a", "http://h:1", "--b", "http://h:2", *more)
        done = CliRunner().invoke(ab, words)
        assert not done.exception, done.exception
    assert len(names) == 3


def test_equal_sides_show_no_difference(tmp_path: Path, processes: FakeProcesses) -> None:
    processes.speed = lambda _, number: steady(AbPoint(run="block", side="a"), number)
    answer = read_answer(tmp_path / "r")
    assert answer["verdict"] == "no-difference"
    assert answer["sentence"].startswith("no difference above 3 %")


def test_steps_of_a_training_are_compared_without_answers(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    done = run_ab(tmp_path / "r", "--training")
    assert "B is faster by 25." in done.output, done.output
    assert "optimizer steps were compared" in done.output
    assert {each.run for each in processes.asked} == {"warm-up", "block"}
    assert not list_errors(tmp_path / "r")


def test_a_budget_that_ends_first_says_how_much_more_is_needed(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    processes.speed = noisy
    done = run_ab(tmp_path / "r", "--minutes", "2")
    assert isinstance(done.exception, TemporaryError)
    assert "not decided within 2 minutes; about" in str(done.exception)
    before = processes.number
    later = run_ab(tmp_path / "r", "--minutes", "6")
    assert f"continuing after {before} runs" in later.output
    assert not list_errors(tmp_path / "r")


def test_a_decided_comparison_is_measured_anew(tmp_path: Path, processes: FakeProcesses) -> None:
    """What was changed since is what the command is repeated for."""
    assert "B is faster" in run_ab(tmp_path / "r").output
    before = processes.number
    processes.speed = lambda _, number: steady(AbPoint(run="block", side="a"), number)
    assert "no difference" in run_ab(tmp_path / "r").output
    assert processes.number > before
    assert list((tmp_path / "r" / ".podium" / "superseded").rglob("study.json"))


def test_the_minutes_that_are_said_to_be_missing_are_beyond_the_budget(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    """A budget with them holds two blocks: 4 runs before, 8 in them, 9 s each."""
    answer = read_answer(tmp_path / "r", "--minutes", "0.2")
    assert answer["more_minutes"] == pytest.approx(12 * 9 / 60 - 0.2)


def test_a_dry_run_finds_the_checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = tmp_path / "r"
    (results / "checkpoints").mkdir(parents=True)
    found: list[bool] = []

    def run_podium(_: object, words: list[str]) -> tuple[int, str]:
        found.append(
            (Path(words[words.index("--results") + 1]) / "checkpoints").samefile(
                results / "checkpoints"
            )
        )
        return 0, ""

    monkeypatch.setattr(driver, "run_podium", run_podium)
    assert "minutes for about" in run_ab(results, "--dry-run").output
    assert found == [True, True]


def noisy(point: AbPoint, number: int) -> float:
    """Equal sides, whose runs differ by a fifth."""
    return 1 + 0.2 * (number * 7919 % 13) / 13


def test_a_budget_below_one_block_says_so(tmp_path: Path, processes: FakeProcesses) -> None:
    done = run_ab(tmp_path / "r", "--minutes", "0.7")
    assert isinstance(done.exception, TemporaryError)
    assert "a budget of 0.7 minutes does not hold one block" in str(done.exception)
    assert {each.run for each in processes.asked} == {"warm-up"}
    assert not any(each.block for each in processes.asked)


def test_a_side_that_fails_in_a_later_block_keeps_what_is_measured(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    def fail(point: AbPoint, number: int) -> float:
        if point.block == 7 and point.turn == 3:
            raise SideError(3, "no memory left")
        return noisy(point, number)

    processes.speed = fail
    done = run_ab(tmp_path / "r", "--minutes", "6")
    assert isinstance(done.exception, MissingError)
    assert "failed in block 7, run 3" in str(done.exception)
    assert "no memory left" in str(done.exception)
    before = processes.number
    processes.speed = noisy
    run_ab(tmp_path / "r", "--minutes", "6")
    assert processes.asked[before] == processes.asked[before - 1]
    assert not list_errors(tmp_path / "r")


def log_error(folder: Path) -> None:
    """Let LoadGen have logged an error in a run."""
    path = folder / DETAIL_LOG
    (line,) = (each for each in path.read_text().splitlines() if '"key": "power_begin"' in each)
    event = json.loads(line.removeprefix(":::MLLOG "))
    event |= {"key": "error_runtime", "value": "Attempted to complete a sample twice."}
    event["metadata"] = event["metadata"] | {"is_error": True}
    path.write_text(path.read_text().replace(line, f":::MLLOG {json.dumps(event)}\n{line}"))


def test_a_run_with_an_error_of_loadgen_does_not_count(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    """The judge would not count it, and find the runs behind it out of order."""

    def spoil(point: AbPoint, place: Path) -> None:
        if (point.block, point.turn) == (1, 2):
            log_error(place)

    processes.spoil = spoil
    done = run_ab(tmp_path / "r")
    assert isinstance(done.exception, JudgedError)
    assert "failed in block 1, run 2 (what is measured is kept): LoadGen logged" in str(
        done.exception
    )
    processes.spoil = lambda point, place: None
    assert "continuing after 5 runs" in run_ab(tmp_path / "r").output
    assert not list_errors(tmp_path / "r")


def test_sides_with_other_data_may_not_be_compared(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    def spoil(point: AbPoint, place: Path) -> None:
        if point.side == "b":
            found = read_system_record(place.parent)
            settings = dict(found.settings) | {"data.picture_size": 16, "data.workers": 7}
            write_system_record(place.parent, replace(found, settings=settings))

    processes.spoil = spoil
    done = run_ab(tmp_path / "r")
    assert isinstance(done.exception, RequestError)
    assert str(done.exception).startswith("the two sides may not be compared: data.picture_size 16")
    assert "workers" not in str(done.exception)


def test_a_side_that_has_changed_says_in_what(tmp_path: Path, processes: FakeProcesses) -> None:
    def spoil(point: AbPoint, place: Path) -> None:
        if (point.side, point.block) == ("b", 1):
            found = read_system_record(place.parent)
            settings = dict(found.settings) | {"batching.max_batch": 999}
            write_system_record(place.parent, replace(found, settings=settings, version="9.9"))

    processes.spoil = spoil
    done = run_ab(tmp_path / "r")
    assert isinstance(done.exception, RequestError)
    told = str(done.exception)
    assert told.startswith(
        "side B is not what it was in its first run: batching.max_batch 999, not"
    )
    assert "version 9.9, not" in told
    assert "data." not in told


def test_an_interrupted_comparison_continues(tmp_path: Path, processes: FakeProcesses) -> None:
    def interrupt(point: AbPoint, number: int) -> float:
        if number == 7:
            raise Interrupted("interrupted by SIGINT")
        return steady(point, number)

    processes.speed = interrupt
    with pytest.raises(Interrupted, match="the same command continues"):
        run_ab(tmp_path / "r")
    processes.speed = steady
    assert "continuing after 6 runs" in run_ab(tmp_path / "r").output
    assert not list_errors(tmp_path / "r")


def test_another_seed_of_a_comparison_that_goes_on_is_told(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    processes.speed = noisy
    assert "is not used" not in run_ab(tmp_path / "r", "--minutes", "2").output
    assert "is not used" not in run_ab(tmp_path / "r", "--minutes", "3").output
    told = run_ab(tmp_path / "r", "--minutes", "4", "--seed", "8").output
    assert "--seed 8 is not used: the comparison that is continued has the seed 7" in told
    assert not list_errors(tmp_path / "r")


def test_lost_accuracy_is_told_beside_the_speed(
    tmp_path: Path, processes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    from suite.ab import answer

    monkeypatch.setattr(answer, "describe_lost_accuracy", lambda _: "B has lost accuracy: top1")
    done = run_ab(tmp_path / "r")
    assert isinstance(done.exception, JudgedError)
    assert "B has lost accuracy: top1; B is faster" in str(done.exception)


@pytest.mark.parametrize(
    ("speeds", "require", "is_refused"),
    [
        ({"a": 1.0, "b": 0.8}, "not-slower", True),
        ({"a": 1.0, "b": 1.0}, "not-slower", False),
        ({"a": 1.0, "b": 1.0}, "faster", True),
        ({"a": 1.0, "b": 1.25}, "faster", False),
    ],
)
def test_what_is_required_decides_the_exit_code(
    tmp_path: Path,
    processes: FakeProcesses,
    speeds: dict[str, float],
    require: str,
    is_refused: bool,
) -> None:
    processes.speed = lambda point, number: (
        speeds[point.side] * steady(AbPoint(run="block", side="a"), number)
    )
    done = run_ab(tmp_path / "r", "--require", require)
    assert isinstance(done.exception, JudgedError) is is_refused, done.output


@pytest.mark.parametrize(
    ("words", "kind", "sentence"),
    [
        (("--a", "data=/other"), RequestError, "both sides answer the same samples"),
        (("--a", "engin=torch"), RequestError, "did you mean 'engine'?"),
        (("--a", "torch"), RequestError, "write KEY=VALUE"),
        (
            (*SERVER_WORDS, "server.target_qps=5", "--b", "server.target_qps=6"),
            RequestError,
            "at one rate",
        ),
        (("--a", "engine=auto"), RequestError, "each run would choose one anew"),
        (("--a", "threads=0"), RequestError, "write a whole number above 0"),
        (("--a", "precision="), RequestError, "write precision=VALUE"),
        (("--a", "http://h:1", "--a", "threads=2"), RequestError, "belongs to the server http"),
        (("--b", "env.HF_TOKEN=x"), RequestError, "set HF_TOKEN in this command's own environment"),
        (("--b", "env.PGPASSWORD=x"), RequestError, "looks like a secret"),
        (("--b", "env.acme_api_key=x"), RequestError, "looks like a secret"),
        (("--b", "env.=x"), RequestError, "write env.NAME=VALUE"),
        (("--a", "http://h:1"), RequestError, "one side is a server and the other is not"),
        (("--scenario", "server"), RequestError, "--set server.target_qps=RATE"),
        (("--b-python", "/nowhere"), MissingError, "no Python there"),
        (("--training", "--b", "engine=torch"), RequestError, "engine belongs to serving"),
        (("--training", "--b", "http://h:1"), RequestError, "belongs to serving"),
        (("--training", "--scenario", "server"), RequestError, "--scenario belongs to serving"),
        (("--training", "--checkpoint", "/w"), RequestError, "--checkpoint belongs to serving"),
        (("--prompts", "8x8"), RequestError, "--prompts requires two servers"),
        (
            ("--dry-run", "--a", "http://h:1", "--b", "http://h:2"),
            RequestError,
            "--dry-run says nothing about servers",
        ),
    ],
)
def test_bad_requests_are_refused_in_a_sentence(
    tmp_path: Path,
    processes: FakeProcesses,
    words: tuple[str, ...],
    kind: type[PodiumError],
    sentence: str,
) -> None:
    done = run_ab(tmp_path / "r", *words)
    assert type(done.exception) is kind
    assert sentence in str(done.exception)
    assert not processes.number


@pytest.mark.parametrize("name", ["TOKENIZERS_PARALLELISM", "MAX_TOKENS", "OMP_NUM_THREADS"])
def test_a_variable_that_is_no_secret_is_recorded(
    tmp_path: Path, processes: FakeProcesses, name: str
) -> None:
    assert run_ab(tmp_path / "r", "--a", f"env.{name}=1").exit_code == 0
    (record,) = (tmp_path / "r" / "studies").rglob("study.json")
    (asked,) = json.loads(record.read_text())["requests"]
    assert asked["request"]["a"]["environment"] == {name: "1"}


def read_options(results: Path) -> dict[str, str]:
    """The options of side A, as the study records them."""
    (record,) = (results / "studies").rglob("study.json")
    (asked,) = json.loads(record.read_text())["requests"]
    found: dict[str, str] = asked["request"]["a"]["options"]
    return found


@pytest.mark.parametrize(
    ("words", "engine"),
    [
        (("--a", "framework=tensorflow"), "tensorflow"),
        (("--a", "framework=tensorflow", "--a", "engine=onnxruntime"), "onnxruntime"),
        (("--a", "framework=tensorflow", "--engine", "onnxruntime"), "onnxruntime"),
        ((), "torch"),
    ],
)
def test_another_framework_is_served_by_its_own_engine(
    tmp_path: Path, processes: FakeProcesses, words: tuple[str, ...], engine: str
) -> None:
    run_ab(tmp_path / "r", *words)
    assert read_options(tmp_path / "r")["engine"] == engine


def test_threads_are_recorded_as_a_system_states_them(
    tmp_path: Path, processes: FakeProcesses
) -> None:
    assert run_ab(tmp_path / "r", "--a", "threads=02").exit_code == 0
    assert read_options(tmp_path / "r")["threads"] == "2"
    assert not list_errors(tmp_path / "r")


def test_a_difference_is_a_percentage(tmp_path: Path) -> None:
    assert run_ab(tmp_path / "r", "--difference", "300%").exit_code == click.UsageError.exit_code
