"""A package that podium knows nothing of goes from train to verified bundle, with the commands that
a user types.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from warm import COMMANDS, TORCH_RUN, Warm

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rings"
Podium = Callable[..., "subprocess.CompletedProcess[str]"]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Install the package into a folder, with the build backend of this environment if it has
    it.
    """
    folder = tmp_path_factory.mktemp("installed")
    here = ["--no-build-isolation", "--no-index"] if find_spec("hatchling") else []
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        *here,
    ]
    subprocess.run([*pip, "--target", str(folder), str(EXAMPLE)], check=True, timeout=300)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
        "PODIUM_CACHE": str(tmp_path_factory.mktemp("cache")),
    }


@pytest.fixture(scope="module")
def podium(environment: dict[str, str]) -> Iterator[Podium]:
    """Run `podium ...` with it, forked from an interpreter that has loaded PyTorch; the test over a
    network starts a server as users do.
    """
    warm = Warm(
        *COMMANDS, *TORCH_RUN, "torch._dynamo", env=environment
    )  # what the first optimizer of a process loads

    def run(*words: object, launcher: str = "") -> "subprocess.CompletedProcess[str]":
        return warm.run(words, environment, launcher)

    yield run
    warm.end()


@pytest.fixture(scope="module")
def once(podium: Podium, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train it."""
    results = tmp_path_factory.mktemp("once") / "results"
    assert "target reached" in done(
        podium("train", "rings", "--results", results, "--seed", 1, "--device", "cpu")
    )
    return results


@pytest.fixture
def trained(once: Path, tmp_path: Path) -> Path:
    """Results after a training, of a test's own."""
    return shutil.copytree(once, tmp_path / "results")


def test_whoever_lacks_the_package_is_told_so(
    podium: Podium, trained: Path, tmp_path: Path
) -> None:
    """`podium verify` called the bundle broken, and named a workload None."""
    bundle = tmp_path / "rings.tar.zst"
    done(podium("pack", trained, "-o", bundle))
    outcome = subprocess.run(
        [sys.executable, "-m", "suite.cli", "verify", str(bundle)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (
        "broken" not in done(outcome, code=3)
        and "cannot be judged here: the package of workload 'rings' is not installed"
        in outcome.stderr
    )


def done(outcome: "subprocess.CompletedProcess[str]", code: int = 0) -> str:
    assert outcome.returncode == code, outcome.stdout + outcome.stderr
    assert "Traceback" not in outcome.stderr
    return outcome.stdout


def test_the_sixth_workload_is_listed_beside_the_others(podium: Podium) -> None:
    assert "rings" in json.loads(done(podium("list", "--format", "json")))["workloads"]


def test_train_infer_check_pack_verify_score(podium: Podium, trained: Path, tmp_path: Path) -> None:
    """Each step by its own command, all four scenarios, real LoadGen."""
    results, bundle = trained, tmp_path / "rings.tar.zst"
    served = done(
        podium(
            "infer",
            "rings",
            "--results",
            results,
            "--device",
            "cpu",
            "--set",
            "server.qps_share=0.02",
            launcher="forked",
        )
    )
    assert re.findall(r"^(\w+) performance: VALID", served, re.MULTILINE) == [
        "SingleStream",
        "MultiStream",
        "Server",
        "Offline",
    ]
    done(podium("check", results))
    done(podium("pack", results, "-o", bundle))
    done(podium("verify", bundle))
    rows = json.loads(done(podium("score", bundle, "--format", "json")))["scores"]
    assert [(row["workload"], row["scenario"]) for row in rows] == [
        ("rings", "MultiStream"),
        ("rings", "Offline"),
        ("rings", "Server"),
        ("rings", "SingleStream"),
        ("rings", None),  # of another system: the engine that serves is ONNX Runtime
    ]
    assert all(row["compliant"] for row in rows)


def test_it_is_served_over_a_network(
    podium: Podium, environment: dict[str, str], trained: Path
) -> None:
    """What an Inference and a Predictor need for it is in the example: the answers are those in
    process.
    """
    pytest.importorskip("tritonclient", reason="the extra `remote` is not installed")
    serve = [
        sys.executable,
        "-m",
        "suite.cli",
        "serve",
        "rings",
        "--results",
        str(trained),
        "--device",
        "cpu",
        "--listen",
        "127.0.0.1:0",
    ]
    words = ["infer", "rings", "--results", trained, "--mode", "accuracy", "--scenario", "offline"]
    with subprocess.Popen(serve, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            url = next(
                match[1]
                for line in server.stdout
                if (match := re.search(r"on (grpc://\S+);", line))
            )
            told = done(podium(*words, "--endpoint", url, "--system", "far", launcher="forked"))
        finally:
            server.kill()
    near = done(podium(*words, "--device", "cpu", "--system", "near", launcher="forked"))
    assert accuracy(told) == accuracy(near) and accuracy(told)


def accuracy(told: str) -> list[str]:
    return [line for line in told.splitlines() if line.startswith("Offline accuracy: top1")]


def test_a_run_on_shuffled_labels_misses_the_target(podium: Podium, tmp_path: Path) -> None:
    outcome = podium(
        "run",
        "rings",
        "--results",
        tmp_path,
        "--seed",
        1,
        "--device",
        "cpu",
        "--set",
        "data.shuffle_labels=true",
    )
    assert "bundle:" not in done(outcome, code=1)
    assert not list(tmp_path.rglob("*.tar.zst*"))


def test_the_packages_own_rule_is_one_of_the_judges(podium: Podium, tmp_path: Path) -> None:
    """The rule is explained, and breaks a log that breaks it."""
    assert "hidden layer" in done(podium("explain", "rings.width"))
    done(
        podium(
            "train",
            "rings",
            "--results",
            tmp_path,
            "--seed",
            1,
            "--device",
            "cpu",
            "--set",
            "rings.width=128",
        )
    )
    findings = json.loads(done(podium("check", tmp_path, "--format", "json"), code=1))["results"][
        0
    ]["findings"]
    assert "rings.width" in {
        finding["rule"] for finding in findings if finding["severity"] == "error"
    }


def test_own_data_is_read_in_place_of_the_drawn(podium: Podium, tmp_path: Path) -> None:
    """A folder without the files is refused before the clock starts."""
    outcome = podium("train", "rings", "--results", tmp_path / "results", "--data", tmp_path)
    assert "train.csv" in outcome.stderr
    done(outcome, code=2)
