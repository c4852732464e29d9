"""From one command to a sealed bundle with the real harness, LoadGen and judge; only the network is
a fake.
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

Podium = Callable[..., "subprocess.CompletedProcess[str]"]
Campaign = tuple[Path, "subprocess.CompletedProcess[str]"]


@pytest.fixture
def copy(campaign: Campaign, tmp_path: Path) -> Path:
    """The campaign's results, to be changed."""
    shutil.copytree(campaign[0], tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def bundle(campaign: Campaign) -> Path:
    """The bundle that the campaign's last line names."""
    return Path(campaign[1].stdout.splitlines()[-1].removeprefix("bundle: "))


def only(results: Path, pattern: str) -> Path:
    """Find the one file that a pattern means."""
    (found,) = results.glob(f"open/*/results/*/{pattern}")
    return found


def test_one_command_leads_to_a_bundle_named_in_the_last_line(
    campaign: Campaign, bundle: Path
) -> None:
    _, outcome = campaign
    assert outcome.returncode == 0, outcome.stderr
    assert bundle.is_absolute()
    assert bundle.is_file()
    assert "Traceback" not in outcome.stderr


@pytest.mark.slow
def test_the_bundle_verifies(podium: Podium, bundle: Path) -> None:
    outcome = podium("verify", bundle)
    assert outcome.returncode == 0, outcome.stdout


@pytest.mark.slow
def test_the_judge_accepts_tree_and_bundle(
    podium: Podium, campaign: Campaign, bundle: Path
) -> None:
    outcome = podium("check", campaign[0], bundle, "--format", "json")
    assert outcome.returncode == 0, outcome.stdout
    told = json.loads(outcome.stdout)["results"]
    assert [result["verdict"] for result in told] == ["valid", "valid"]
    found = {finding["rule"] for result in told for finding in result["findings"]}
    assert not found & {
        "loadgen.library",
        "loadgen.draws",
    }, "the judge draws again what the installed LoadGen drew"


@pytest.mark.slow
def test_tree_and_bundle_score_alike_and_compliant(
    podium: Podium, campaign: Campaign, bundle: Path
) -> None:
    rows = [
        json.loads(podium("score", path, "--format", "json").stdout)["scores"]
        for path in (campaign[0], bundle)
    ]
    assert rows[0] == rows[1]
    assert sorted(str(row["scenario"]) for row in rows[0]) == [
        "MultiStream",
        "None",
        "Offline",
        "Server",
        "SingleStream",
    ]
    assert all(row["compliant"] and row["value"] > 0 for row in rows[0])


def test_the_official_checker_accepts_the_training_log(campaign: Campaign, tmp_path: Path) -> None:
    log = only(campaign[0], "*/result_0.txt")
    words = [
        "-m",
        "mlperf_logging.compliance_checker",
        "--usage",
        "training",
        "--ruleset",
        "0.7.0",
        "--log_output",
        str(tmp_path / "checker.log"),
        str(log),
    ]
    outcome = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=log.parents[6], check=False
    )
    assert "SUCCESS" in outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_the_same_command_again_does_nothing_and_gives_the_same_bytes(
    podium: Podium, copy: Path, fake: Sequence[str]
) -> None:
    (before,) = copy.glob("bundles/*.tar.zst")
    content = before.read_bytes()
    outcome = podium("run", "fake", "--results", copy, "--seed", 1, *fake)
    assert outcome.returncode == 0, outcome.stderr
    assert "train: already finished" in outcome.stdout
    assert "infer: already finished" in outcome.stdout
    assert outcome.stdout.splitlines()[-1] == f"bundle: {before}"
    assert before.read_bytes() == content


def lower_accuracy(results: Path) -> None:
    log = only(results, "*/result_0.txt")
    lines = log.read_text().splitlines(keepends=True)
    last = max(index for index, line in enumerate(lines) if '"eval_accuracy"' in line)
    lines[last] = re.sub(r'"value": [0-9.]+', '"value": 0.7', lines[last])
    log.write_text("".join(lines))


def delete_epoch_marker(results: Path) -> None:
    log = only(results, "*/result_0.txt")
    lines = log.read_text().splitlines(keepends=True)
    lines.remove(next(line for line in lines if '"epoch_stop"' in line))
    log.write_text("".join(lines))


def edit_throughput(results: Path) -> None:
    summary = only(results, "fake/Offline/performance/run_1/mlperf_log_summary.txt")
    summary.write_text(re.sub(r"(Samples per second: )\S+", r"\g<1>999999999", summary.read_text()))


def delete_answer(results: Path) -> None:
    answers = only(results, "fake/Server/accuracy/mlperf_log_accuracy.json")
    lines = answers.read_text().splitlines(keepends=True)
    answers.write_text("".join(lines[:3] + lines[4:]))


def swap_detail(results: Path) -> None:
    shutil.copy(
        only(results, "fake/Server/performance/run_1/mlperf_log_detail.txt"),
        only(results, "fake/Offline/performance/run_1/mlperf_log_detail.txt"),
    )


def cut_log(results: Path) -> None:
    log = only(results, "*/result_0.txt")
    log.write_bytes(log.read_bytes()[: log.stat().st_size // 2])


def lower_truth(results: Path) -> None:
    (labels,) = results.glob("open/*/truth/fake/labels.txt")
    labels.write_text(labels.read_text().replace("7", "8"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "tamper",
    [
        lower_accuracy,
        delete_epoch_marker,
        edit_throughput,
        delete_answer,
        swap_detail,
        cut_log,
        lower_truth,
    ],
)
def test_tampered_results_are_refused(
    podium: Podium, copy: Path, tamper: Callable[[Path], None]
) -> None:
    tamper(copy)
    outcome = podium("check", copy, "--format", "json")
    assert outcome.returncode == 1
    assert json.loads(outcome.stdout)["results"][0]["verdict"] == "broken"


@pytest.mark.slow
def test_tampered_results_are_not_packed(podium: Podium, copy: Path, tmp_path: Path) -> None:
    delete_answer(copy)
    outcome = podium("pack", copy, "-o", tmp_path / "x.tar.zst")
    assert outcome.returncode == 1
    assert "Server" in outcome.stderr
    assert "Traceback" not in outcome.stderr
    assert not list(tmp_path.glob("x.tar*"))


def test_a_damaged_bundle_is_refused(podium: Podium, bundle: Path, tmp_path: Path) -> None:
    data = bytearray(bundle.read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "x.tar.zst").write_bytes(data)
    outcome = podium("verify", tmp_path / "x.tar.zst")
    assert outcome.returncode == 1
    assert "Traceback" not in outcome.stdout + outcome.stderr


SPREAD = ("--set", "fake.step_ms=2", "--set", "fake.gain=0.1")
"""Runs of these seeds take one or two epochs, and so never the same milliseconds of a log; sets of
equal runs are not tested.
"""


@pytest.mark.slow
def test_two_sets_of_runs_are_compared_with_an_interval_and_a_verdict(
    podium: Podium, campaign: Campaign, tmp_path: Path, trained: Sequence[str]
) -> None:
    """Three runs each, of different seeds; one run of each scenario is not tested."""
    sets = [tmp_path / name for name in ("one", "two")]
    for seed, results in zip((1, 11), sets, strict=True):
        assert (
            podium(
                "train",
                "fake",
                "--runs",
                3,
                "--seed",
                seed,
                "--results",
                results,
                *trained,
                *SPREAD,
            ).returncode
            == 0
        )
    outcome = podium("compare", *sets, campaign[0], "--format", "json", "--require", "comparable")
    assert outcome.returncode == 1, "Server and the others stand in one path alone"
    kinds = {
        row["scenario"] or "training": row["results"]
        for row in json.loads(outcome.stdout)["comparisons"]
    }
    _, other, single = kinds["training"]
    assert other["verdict"] in ("faster", "slower", "not separable") and len(other["runs"]) == 3
    assert other["ratio_interval"]["low"] < other["ratio"] < other["ratio_interval"]["high"]
    assert (single["verdict"], single["why"]) == ("not tested", "3 and 1 runs")
    itself = podium("compare", sets[0], sets[0], "--require", "separable")
    assert itself.returncode == 1 and "is not separable" in itself.stderr
    twice = podium("compare", campaign[0], campaign[0], "--format", "json")
    offline = next(
        row for row in json.loads(twice.stdout)["comparisons"] if row["scenario"] == "Offline"
    )
    assert (offline["results"][1]["verdict"], offline["results"][1]["ratio"]) == ("not tested", 1.0)


@pytest.mark.slow
def test_a_campaign_of_three_runs_has_verdicts_for_training_and_serving(
    podium: Podium, forked: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    """`--runs` counts for both halves; a run that a kill took is made up for by the same
    command.
    """
    sets = [tmp_path / name for name in ("one", "two")]
    for seed, results in zip((1, 11), sets, strict=True):
        outcome = forked(
            "run", "fake", "--runs", 3, "--seed", seed, "--results", results, *fake, *SPREAD
        )
        assert outcome.returncode == 0, outcome.stdout + outcome.stderr
    kinds = {
        row["scenario"] or "training": row["results"][1]
        for row in json.loads(
            podium(
                "compare", *(next(each.glob("bundles/*.zst")) for each in sets), "--format", "json"
            ).stdout
        )["comparisons"]
    }
    for kind in ("training", "Offline", "SingleStream", "MultiStream"):
        assert (
            kinds[kind]["verdict"] in ("faster", "slower", "not separable")
            and len(kinds[kind]["runs"]) == 3
        ), (kind, kinds[kind])
        assert (
            kinds[kind]["ratio_interval"]["low"]
            < kinds[kind]["ratio"]
            < kinds[kind]["ratio_interval"]["high"]
        )
    (last,) = sets[0].glob("open/*/results/*/fake/Offline/performance/run_3")
    shutil.rmtree(last)
    outcome = forked("run", "fake", "--runs", 3, "--seed", 1, "--results", sets[0], *fake, *SPREAD)
    assert (
        outcome.returncode == 0 and "infer Offline, performance" in outcome.stdout and last.is_dir()
    ), outcome.stdout + outcome.stderr


HEAVY = ("torch", "torchvision", "mlperf_loadgen", "PIL", "psutil", "safetensors", "pynvml")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "check", "score", "compare"])
def test_a_bundle_is_read_without_any_framework(
    environment: dict[str, str], bundle: Path, command: str
) -> None:
    """Who only checks, scores or compares has the light core alone."""
    blocked = "; ".join(f"sys.modules[{name!r}] = None" for name in HEAVY)
    words = [
        sys.executable,
        "-c",
        f"import sys; {blocked}; from suite.cli import main; main()",
        command,
        str(bundle),
    ]
    outcome = subprocess.run(words, capture_output=True, text=True, env=environment, check=False)
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


@pytest.mark.slow
def test_shuffled_labels_miss_the_target_and_leave_no_bundle(
    podium: Podium, tmp_path: Path, fake: Sequence[str]
) -> None:
    outcome = podium(
        "run", "fake", "--results", tmp_path, *fake, "--set", "data.shuffle_labels=true"
    )
    assert outcome.returncode == 1
    assert "bundle:" not in outcome.stdout
    assert not list(tmp_path.rglob("*.tar.zst*"))


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "fakes"], "did you mean 'fake'"),
        (["run", "fake", "--set", "fake.step=1"], "did you mean 'fake.steps'"),
        (["run", "fake", "--seeed", "1"], "did you mean '--seed'"),
        (["run", "fake", "--profile", "smok"], "smoke"),
        (["pack", "nothing", "-o", "x.tar.zst"], "no such results folder"),
        (["score"], "Missing argument"),
        (["compare", "x", "--format", "xml"], "json"),
    ],
)
def test_a_wrong_request_is_one_sentence_and_exit_2(
    podium: Podium, tmp_path: Path, words: list[str], sentence: str
) -> None:
    outcome = podium(*words, *(["--results", tmp_path] if words[0] == "run" else []))
    assert outcome.returncode == 2
    assert sentence in outcome.stderr
    assert "Traceback" not in outcome.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["verify", "score", "compare", "check"])
@pytest.mark.parametrize("content", [None, b"\x28\xb5\x2f\xfd" * 9], ids=["missing", "garbage"])
def test_what_cannot_be_read_is_exit_1_without_a_traceback(
    podium: Podium, tmp_path: Path, command: str, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "x.tar.zst").write_bytes(content)
    outcome = podium(command, tmp_path / "x.tar.zst")
    assert outcome.returncode == 1
    assert "Traceback" not in outcome.stdout + outcome.stderr
    assert outcome.stdout + outcome.stderr
