"""What a sample's answer needs can travel as bytes: every workload's answers from payloads are
those from its samples.
"""

from dataclasses import replace
from pathlib import Path

import pytest
from testbed import GENERATING, SETTINGS

from harness.request import build_reading_options
from harness.serving.setup import set_up_serving
from harness.serving.weights.initial import export_random_weights
from suite.rounds import Profile
from suite.workload import PayloadInference, PayloadPredictor

FIXED = {"maskrcnn": ("batching.max_batch=2",), "minigo": ("batching.max_batch=4",)}


@pytest.mark.slow
@pytest.mark.parametrize("workload", sorted(SETTINGS.keys() - GENERATING))
def test_answers_from_payloads_are_answers_from_samples(workload: str, small: Path) -> None:
    """A payload that loses a byte, a number or a size would be another sample on the other side of
    the network.
    """
    settings = [f"{key}={value}" for key, value in SETTINGS[workload].items()]
    options = build_reading_options(
        Profile.SMOKE,
        None,
        small / "results",
        None,
        (*settings, *FIXED.get(workload, ("batching.max_batch=4",))),
    )
    options = replace(options, threads=1)  # two would wait for one another beside other tests
    bench = set_up_serving(workload, options, export_random_weights(workload, options))
    inference, _ = bench.system.open_inference()
    samples = [1, 0, 1][: bench.system.batching.max_batch]
    inference.load(sorted(set(samples)))
    predictor = inference.open(0, bench.system.batching.max_batch)
    assert isinstance(inference, PayloadInference) and isinstance(predictor, PayloadPredictor)
    payloads = [inference.payload(sample) for sample in samples]
    assert [*predictor.answer(payloads)] == [*predictor(samples)]
    with pytest.raises(ValueError):
        predictor.answer([payloads[0][:-1]])
    inference.close()
