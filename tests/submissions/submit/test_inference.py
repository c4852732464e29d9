"""`podium submit inference`: served results in the layout of each round, with what they lack; podium's
judge of the round finds each edit. MLCommons' checker of Inference is no package: a checkout is asked
as a submitter names it, here one that says what a test wants.

The results are in the form of LoadGen's and podium's files, in profile `smoke`.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from making import write_tree
from making_llama import build_llama_subject
from system_records import put_system

from compliance.judge import Judge
from compliance.verdict import Severity
from submissions.commands.submit import submit
from suite.errors import JudgedError, MissingError, RequestError
from suite.loadgen.scenario import Scenario

pytestmark = pytest.mark.slow

ENTRY: Final = "open/acme/results/box-torch-fp32/llama3.1-8b/Offline"
RUN: Final = f"{ENTRY}/performance/run_1"


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign with llama, and one with ResNet-50."""
    home = tmp_path_factory.mktemp("served")
    write_tree(home / "llama", Scenario.OFFLINE, subject=build_llama_subject())
    write_tree(home / "resnet50", Scenario.SINGLE_STREAM)
    return home


def run_submit(results: Path, round_name: str, target: Path, *more: str) -> Result:
    """Run the command in this process."""
    words = [str(results), "--round", round_name, "-o", str(target), "--org", "acme", *more]
    return CliRunner().invoke(submit, ["inference", *words])


@pytest.fixture(scope="session")
def written(results: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A submission of llama to v6.1, written although something is missing."""
    target = tmp_path_factory.mktemp("written") / "tree"
    done = run_submit(results / "llama", "v6.1", target, "--incomplete")
    assert isinstance(done.exception, JudgedError), done.output
    return target


@pytest.fixture
def tree(written: Path, tmp_path: Path) -> Path:
    """A copy of it that a test may change."""
    return Path(shutil.copytree(written, tmp_path / "tree"))


def list_error_rules(tree: Path) -> set[str]:
    """The rules that podium finds broken."""
    findings = Judge("inference-v6.1").judge_path(str(tree)).findings
    return {each.rule for each in findings if each.severity is Severity.ERROR}


def test_what_is_missing_is_listed_and_nothing_written(results: Path, tmp_path: Path) -> None:
    done = run_submit(results / "llama", "v6.1", tmp_path / "tree")
    assert isinstance(done.exception, JudgedError) and done.exception.exit_code == 1
    assert [*tmp_path.iterdir()] == []
    for rule in ("submit.profile", "submit.code", "inference-mllog.duration"):
        assert f"missing {rule}\n" in done.output
    assert "profile smoke; required: full" in done.output


def test_files_of_loadgen_are_copied_as_they_are(results: Path, written: Path) -> None:
    """Beside them are the accuracy, in the words of the round's script, and the measurements;
    podium's own records stay behind.
    """
    for name in ("mlperf_log_detail.txt", "mlperf_log_summary.txt"):
        assert (written / RUN / name).read_bytes() == (results / "llama" / RUN / name).read_bytes()
    place = f"{ENTRY}/accuracy/mlperf_log_accuracy.json"
    assert (written / place).read_bytes() == (results / "llama" / place).read_bytes()
    text = (written / f"{ENTRY}/accuracy/accuracy.txt").read_text()
    assert text.startswith("{'rouge1': ") and "\nhash=" in text
    assert not list(written.rglob("run.json")) and not list(written.rglob("*.npy"))
    (measurements,) = (written / ENTRY).glob("*.json")
    assert json.loads(measurements.read_text())["retraining"] == "no"
    assert "podium" not in json.loads(
        (written / "open/acme/systems/box-torch-fp32.json").read_text()
    )


def test_before_v6_0_measurements_lie_apart(results: Path, tmp_path: Path) -> None:
    """The files that a round asks for beside them are the user's, and the code is."""
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "user.conf").write_text("*.SingleStream.target_latency = 10\n")
    (beside / "notes.txt").write_text("no file of the round\n")
    code = tmp_path / "code"
    code.mkdir()
    (code / "main.py").write_text("print()\n")
    more = ["--measurements", str(beside), "--code", str(code), "--system", "box", "--incomplete"]
    done = run_submit(results / "resnet50", "v5.1", tmp_path / "tree", *more)
    assert isinstance(done.exception, JudgedError), done.output
    home = tmp_path / "tree/open/acme"
    assert (home / "results/box/resnet50/SingleStream/performance/run_1").is_dir()
    names = {each.name for each in (home / "measurements/box/resnet50/SingleStream").iterdir()}
    assert "user.conf" in names and "notes.txt" not in names
    assert (home / "code/resnet50/code/main.py").is_file() and (home / "systems/box.json").is_file()
    assert "submit.code" not in done.output


EDITS: Final[dict[str, tuple[Callable[[Path], Any], str]]] = {
    "no accuracy": (
        lambda root: shutil.rmtree(root / ENTRY / "accuracy"),
        "inference-mllog.complete",
    ),
    "no performance": (
        lambda root: shutil.rmtree(root / ENTRY / "performance"),
        "inference-mllog.complete",
    ),
    "another rate": (
        lambda root: replace_value(root, "result_tokens_per_second", lambda old: 2 * old),
        "inference-mllog.summary",
    ),
    "another seed": (
        lambda root: replace_value(root, "effective_qsl_rng_seed", lambda old: old + 1),
        "inference-mllog.seeds",
    ),
    "INVALID": (
        lambda root: replace_value(root, "result_validity", lambda old: "INVALID"),
        "inference-mllog.valid",
    ),
}
"""Edits of a tree, each with podium's rule."""


def replace_value(root: Path, key: str, change: Callable[[Any], Any]) -> None:
    """Change the value of a key in the detail log of the performance run."""
    path = root / RUN / "mlperf_log_detail.txt"
    lines = path.read_text().splitlines()
    for place, line in enumerate(lines):
        if f'"key": "{key}"' in line:
            record = json.loads(line.removeprefix(":::MLLOG "))
            record["value"] = change(record["value"])
            lines[place] = f":::MLLOG {json.dumps(record)}"
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("name", EDITS)
def test_each_edit_is_found(tree: Path, name: str) -> None:
    change, rule = EDITS[name]
    assert rule not in list_error_rules(tree)
    change(tree)
    assert rule in list_error_rules(tree)


def test_interactive_bounds_are_another_scenario(tmp_path: Path) -> None:
    """podium has it as Server, MLPerf in a folder of its own."""
    home = write_tree(tmp_path / "results", Scenario.SERVER, subject=build_llama_subject())
    (record,) = home.glob("open/acme/results/*/*/Server/system.json")
    put_system(**{"settings__tokens.bounds": "interactive"})(record)
    done = run_submit(home, "v6.1", tmp_path / "tree", "--incomplete")
    assert "box-torch-fp32/llama3.1-8b/Interactive, by the rules" in done.output
    (run,) = (tmp_path / "tree").glob("open/acme/results/*/*/*/performance/run_1")
    assert run.parts[-3] == "Interactive"


def test_a_round_without_the_benchmark_is_refused(results: Path, tmp_path: Path) -> None:
    done = run_submit(results / "llama", "v5.0", tmp_path / "tree")
    assert isinstance(done.exception, RequestError)
    told = "rounds that have some of them: inference-v5.1, inference-v6.0, inference-v6.1"
    assert told in str(done.exception)


def test_what_is_no_result_is_named(tmp_path: Path) -> None:
    for name, why in (("nowhere", "no such file or folder"), ("", "no served result of podium")):
        done = run_submit(tmp_path / name, "v6.1", tmp_path / "tree")
        assert isinstance(done.exception, RequestError)
        assert why in str(done.exception)


def test_what_podium_measured_is_not_stated_otherwise(results: Path, tmp_path: Path) -> None:
    file = tmp_path / "box.toml"
    file.write_text("[system]\nhost_processor_model_name = 'Other'\n")
    done = run_submit(
        results / "llama", "v6.1", tmp_path / "tree", "--incomplete", "--system-file", str(file)
    )
    assert isinstance(done.exception, RequestError)
    assert "host_processor_model_name: podium has it from the run" in str(done.exception)
    assert not (tmp_path / "tree").exists()


def test_a_rule_is_listed_once(results: Path, tmp_path: Path) -> None:
    done = run_submit(results, "v6.1", tmp_path / "tree")
    assert done.output.count("missing submit.profile\n") == 1


SOUND: Final = "print('INFO:main:SUMMARY: submission looks OK')"
BROKEN: Final = f"""import logging, sys
logging.basicConfig(level=logging.INFO)
logging.getLogger('main').error('{ENTRY}/performance has no power')
logging.getLogger('main').error('SUMMARY: submission has errors')
"""


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (SOUND, ": passed, errors: 0"),
        (BROKEN, "has no power"),
        ("raise SystemExit('no such version')", "ended with no such version"),
    ],
)
def test_a_checkout_of_the_checker_is_asked(
    results: Path, tmp_path: Path, program: str, said: str
) -> None:
    folder = tmp_path / "inference/tools/submission/submission_checker"
    folder.mkdir(parents=True)
    (folder / "main.py").write_text(program)
    more = ["--checker", str(tmp_path / "inference")]
    done = run_submit(results / "llama", "v6.1", tmp_path / "tree", *more)
    assert said in done.output
    assert "submission_checker of inference, v6.1: " in done.output


def test_a_folder_without_the_checker_is_refused(results: Path, tmp_path: Path) -> None:
    more = ["--checker", str(tmp_path)]
    done = run_submit(results / "llama", "v6.1", tmp_path / "tree", *more)
    assert isinstance(done.exception, MissingError) and "checkout" in str(done.exception)
