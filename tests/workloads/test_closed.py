"""The closed division of the picture workloads: network, loss and sampling stand as in the reference, whatever a user sets."""

import pytest

from suite import registry
from suite.legality import judge
from suite.rounds import HyperValue, Profile
from suite.settings import settle

CASES: list[tuple[str, str, HyperValue]] = [
    ("resnet50", "data.picture_size", 192),
    ("resnet50", "loss.label_smoothing", 0.2),
    ("resnet50", "data.crops", "uniform-area"),
    ("resnet50", "model.start", "torchvision"),
    ("ssd", "model.configuration", "128"),
    ("ssd", "sgd.clip_norm", 10.0),
    ("maskrcnn", "model.frozen_norm", False),
    ("maskrcnn", "model.anchor_sizes", (8, 16, 32, 64, 128)),
    ("maskrcnn", "roi.detections", 50),
    ("maskrcnn", "sgd.momentum", 0.5),
]


@pytest.mark.parametrize(("workload", "key", "value"), CASES, ids=lambda case: str(case))
def test_a_setting_that_the_rules_fix_is_refused(workload: str, key: str, value: HyperValue) -> None:
    """Smaller pictures or another network would be another benchmark; the profile's own values break nothing."""
    round = registry.round()
    settings, constraints = settle(round, workload, Profile.FULL, {}), round.benchmark(workload).training[Profile.FULL].constraints
    assert not list(judge(constraints, settings))
    assert [breach.key for breach in judge(constraints, {**settings, key: value})] == [key]
