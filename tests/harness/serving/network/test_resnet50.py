"""ResNet-50 over a network: real pictures, a real network, and the answers that it gives in process."""

from dataclasses import replace
from pathlib import Path

import pytest
from podium_fakes.remote import served

from harness.request import reading
from harness.serving import infer
from harness.serving.loadgen.result_files import read_answers
from harness.serving.network.setup import Asked
from harness.serving.weights.initial import random_weights
from suite.files.layout import ACCURACY
from suite.loadgen.scenario import Scenario
from suite.rounds import Profile

pytestmark = pytest.mark.slow
SCENARIOS = (Scenario.OFFLINE, Scenario.SERVER)


def test_accuracy_over_the_network_is_that_in_process(tmp_path: Path) -> None:
    """Byte for byte, for each picture of the accuracy set; weights that nobody trained give answers that differ most."""
    options = reading(Profile.SMOKE, None, tmp_path / "results")
    checkpoint = random_weights("resnet50", options)
    near, far = (replace(options, system=name) for name in ("near", "far"))
    infer.serve("resnet50", near, scenarios=(Scenario.OFFLINE,), mode="accuracy", checkpoint=checkpoint)
    with served(options.results, "--checkpoint", str(checkpoint), workload="resnet50", framework="torch") as server:
        asked = Asked(endpoints=(server.url,), ca=None, token_file=None)
        infer.serve("resnet50", far, scenarios=SCENARIOS, mode="accuracy", checkpoint=checkpoint, asked=asked)
    logs = sorted(options.results.glob(f"open/*/results/*/resnet50/*/accuracy/{ACCURACY}"))
    found = [dict(read_answers(path.parent)) for path in logs]
    assert [path.parts[-5] for path in logs] == ["far", "far", "near"] and found[0] and found[0] == found[1] == found[2]
