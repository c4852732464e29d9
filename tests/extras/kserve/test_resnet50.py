"""ResNet-50 over a network: real pictures, a real network, and the answers that it gives in
process.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from podium_fakes.looks import look_briefly
from podium_fakes.remote import served

from harness.request import build_reading_options
from harness.serving import infer, speed_probe
from harness.serving.network.site_choice import choose_remote_site
from harness.serving.weights.initial import export_random_weights
from suite.files.layout import ACCURACY_LOG
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.rounds import Profile
from workloads.resnet50.images import embedded

pytestmark = pytest.mark.slow
SCENARIOS = (Scenario.OFFLINE, Scenario.SERVER)
PER_CLASS = {"train": 1, "val": 8}
SMALL = "data.picture_size=32"
BATCH = "batching.max_batch=8"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Some of the embedded pictures of each class, as a folder of the user's."""
    monkeypatch.setenv("PODIUM_CACHE", str(tmp_path / "cache"))
    for split, count in PER_CLASS.items():
        for label, name in enumerate(embedded.EMBEDDED_CLASSES):
            folder = tmp_path / "data" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                embedded.draw_embedded_image(split, label, number).save(folder / f"{number}.JPEG")
    return tmp_path / "data"


def test_accuracy_over_the_network_is_that_in_process(
    tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Byte for byte, for each picture of the accuracy set; weights that nobody trained give answers
    that differ most.
    """
    monkeypatch.setattr(speed_probe, "run_probe_job", look_briefly)
    options = replace(
        build_reading_options(Profile.QUICK, data, tmp_path / "results", assignments=(SMALL,)),
        threads=1,
    )
    checkpoint = export_random_weights("resnet50", options)
    near, far = (
        replace(options, system="near", assignments=(SMALL, BATCH)),
        replace(options, system="far"),
    )
    infer.serve_workload(
        "resnet50", near, scenarios=(Scenario.OFFLINE,), mode="accuracy", checkpoint=checkpoint
    )
    words = (
        "--checkpoint",
        str(checkpoint),
        "--profile",
        "quick",
        "--data",
        str(data),
        "--set",
        SMALL,
        "--set",
        BATCH,
    )
    with served(options.results, *words, workload="resnet50", framework="torch") as server:
        site = choose_remote_site((server.url,), SCENARIOS)
        infer.serve_workload(
            "resnet50",
            far,
            scenarios=SCENARIOS,
            mode="accuracy",
            checkpoint=checkpoint,
            site=site,
        )
    logs = sorted(options.results.glob(f"open/*/results/*/resnet50/*/accuracy/{ACCURACY_LOG}"))
    found = [dict(read_logged_answers(path.parent)) for path in logs]
    assert [path.parts[-5] for path in logs] == ["far", "far", "near"] and found[0] == found[
        1
    ] == found[2]
    assert (
        len(found[0]) == PER_CLASS["val"] * len(embedded.EMBEDDED_CLASSES)
        and len(set(found[0].values())) > 1
    )
