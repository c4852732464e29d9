"""`podium sweep --network X --weights FILE --data DIR`: top-1 and top-5, kept so that the judge
scores again.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image
from podium_fakes.looks import look_briefly
from safetensors.torch import save_file

from compliance.judge import Judge
from compliance.verdict import Severity
from extras.networks import classifiers
from extras.networks.labelled import IMAGENET_CLASS_COUNT
from harness.commands.sweep import sweep
from harness.request import build_reading_options
from harness.serving import speed_probe
from harness.serving.studies import idle
from harness.serving.sweep import subjects
from suite import registry
from suite.errors import RequestError
from suite.rounds import Profile
from suite.studies import sweep as kind
from suite.studies.documents import (
    SAMPLES_LIST_FILE,
    STUDIES_FOLDER,
    STUDY_TRUTH_FOLDER,
)
from suite.studies.measured import describe_study, read_measured_study
from suite.terms import Precision

NETWORK = "shufflenet_v2_x0_5"
"""Of tests/fakes: it answers a thousand pictures in a few seconds."""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of its own; speeds are measured once, however wide their intervals."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(idle, "IDLE_POWER_S", 0.3)
    monkeypatch.setattr(speed_probe, "run_probe_job", look_briefly)
    monkeypatch.setattr(kind, "choose_longer_run", lambda row, seconds: None)


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    """Weights that say class 3, then 2, 7, 5, 0, of whatever picture."""
    state = classifiers.build_classifier(NETWORK, 5, None).state_dict()
    state["fc.weight"].zero_()
    state["fc.bias"].zero_()
    for value, label in enumerate((0, 5, 7, 2, 3), start=1):
        state["fc.bias"][label] = float(value)
    save_file(state, tmp_path / "w.safetensors")
    return tmp_path / "w.safetensors"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A picture of each class."""
    Image.new("RGB", (32, 32), (200, 100, 50)).save(tmp_path / "a.jpg")
    for label in range(IMAGENET_CLASS_COUNT):
        place = tmp_path / "data" / "val" / f"n{label:08d}"
        place.mkdir(parents=True)
        (place / "a.JPEG").hardlink_to(tmp_path / "a.jpg")
    return tmp_path / "data"


def invoked(results: Path, *arguments: object) -> dict[str, Any]:
    """Sweep one batch for a moment; return the table."""
    command = [
        "--network",
        NETWORK,
        "--batches",
        "1",
        "--seconds",
        "0.2",
        "--threads",
        "1",
        "--results",
        str(results),
        *map(str, arguments),
    ]
    CliRunner().invoke(sweep, command, catch_exceptions=False)
    return describe_study(read_measured_study(results / STUDIES_FOLDER / NETWORK))


def errors(path: Path) -> set[str]:
    return {
        finding.rule
        for finding in Judge().judge_path(str(path)).findings
        if finding.severity is Severity.ERROR
    }


@pytest.mark.slow
def test_a_network_is_scored_once_and_the_judge_scores_again(
    weights: Path, data: Path, tmp_path: Path
) -> None:
    """One picture in a thousand is of the class that the network always says, five are of those
    that it names.
    """
    results = tmp_path / "results"
    wanted = {"top1": 1 / IMAGENET_CLASS_COUNT, "top5": 5 / IMAGENET_CLASS_COUNT}
    (row,) = invoked(results, "--weights", weights, "--data", data, "--precision", "fp32")["points"]
    study = results / STUDIES_FOLDER / NETWORK
    assert row["scores"] == wanted and errors(study) == set()
    assert (study / STUDY_TRUTH_FOLDER / SAMPLES_LIST_FILE).read_text().count(
        "\n"
    ) == IMAGENET_CLASS_COUNT
    log = next(study.glob("*/accuracy/mlperf_log_accuracy.json"))
    made = log.stat().st_mtime_ns
    (again,) = invoked(results, "--weights", weights)["points"]
    assert (
        again["scores"] == wanted and log.stat().st_mtime_ns == made
    )  # of the same weights: nothing is answered twice
    (data / "val" / "n00000003" / "b.JPEG").hardlink_to(tmp_path / "a.jpg")
    with pytest.raises(RequestError, match="was scored on other samples; give another --results"):
        invoked(results, "--weights", weights, "--data", data)
    log.write_text(log.read_text().replace("]", ""))
    assert errors(study)


def test_podiums_own_networks_are_scored_alike() -> None:
    """By the scorer that the network of these tests has."""
    own = {name for name in registry.map_entry_points(registry.NETWORK_GROUP) if name != NETWORK}
    assert len(own) >= 5 and {registry.load_scorer(name) for name in own} == {
        registry.load_scorer(NETWORK)
    }


def test_data_for_two_kinds_of_subjects_is_refused(
    weights: Path, data: Path, tmp_path: Path
) -> None:
    """It went to the workload alone without a word."""
    words = [
        "fake",
        "--network",
        NETWORK,
        "--weights",
        str(weights),
        "--data",
        str(data),
        "--framework",
        "fake",
        "--engine",
        "fake",
        "--results",
        str(tmp_path / "r"),
    ]
    result = CliRunner().invoke(sweep, words)
    assert isinstance(
        result.exception, RequestError
    ) and "sweep them by commands of their own" in str(result.exception)


def test_a_score_that_would_say_nothing_is_refused(
    weights: Path, data: Path, tmp_path: Path
) -> None:
    """Exit code 2 before anything is measured: random weights, two networks, a folder of other
    classes.
    """
    for arguments, words in (
        (("--data", data), f"needs --weights: random weights of {NETWORK} cannot be scored"),
        (
            ("--network", "vgg19", "--data", data),
            f"--data requires exactly one --network: {NETWORK}, vgg19",
        ),
        (("--weights", weights, "--data", tmp_path), r"expected val/<class>/<name>\.JPEG"),
    ):
        with pytest.raises(RequestError, match=words) as caught:
            invoked(tmp_path / "results", *arguments)
        assert caught.value.exit_code == 2 and not (tmp_path / "results").exists()


def test_what_a_network_runs_in_is_loaded_once(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of LoadGen's processes would import PyTorch again."""
    named: list[str] = []
    monkeypatch.setattr(subjects, "load_ahead", named.extend)
    subjects.set_up_swept_network(
        NETWORK,
        replace(build_reading_options(Profile.SMOKE, None, weights.parent, None, ()), device="cpu"),
        subjects.SweepOptions(
            workloads=(),
            networks=(NETWORK,),
            batches=(1,),
            engines=("torch",),
            precisions=(Precision.FP32,),
            within_ms=None,
            seconds=1.0,
            seed=0,
            checkpoint=None,
            weights=weights,
        ),
    )
    assert named == [classifiers.__name__]
