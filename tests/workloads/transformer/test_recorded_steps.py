"""Recorded decoder steps against a recording double of the GPU: the same tokens as eager decoding,
whatever the batch, and what is recorded and when.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recording_gpu import RecordingGpu

from harness.engines.torch import TorchExecutable
from suite.engine import Plan
from suite.terms import Precision
from workloads.transformer.inference import record_torch_steps
from workloads.transformer.model import (
    TransformerNetwork,
    TransformerServingDecoderStep,
    TransformerServingEncoder,
)
from workloads.transformer.recipe import DecodingParameters, TransformerShape
from workloads.transformer.system_under_test import describe_transformer_networks
from workloads.transformer.translation.decoding import TransformerTranslator
from workloads.transformer.translation.torch_tensors import TorchConverter, build_torch_translator

SHAPE = TransformerShape(layers=2, width=32, filter=64, heads=4, vocabulary=50)
DECODING = DecodingParameters(beam=3, alpha=0.6, extra_length=20)
MOST, LONGEST = 5, 20
RECORDED_SIZES, RECORDED_LENGTHS = (5, 4, 2, 1), (32, 16)


@pytest.fixture(scope="module")
def model() -> TransformerNetwork:
    torch.manual_seed(3)
    made = TransformerNetwork(SHAPE).eval()
    with torch.no_grad():
        made.embedding.mul_(6)  # sure enough to end sentences, and at different positions
        for layer in made.decoder_layers:
            for attention in (layer.attention, layer.source):
                attention.out.weight.mul_(8)  # a wrong key or mask decides an answer
    return made


def open_translator(
    model: TransformerNetwork,
    cache: Path,
    gpu: RecordingGpu | None,
    device: str = "cpu",
    **options: Any,
) -> tuple[TransformerTranslator[torch.Tensor], list[TorchExecutable]]:
    """Open one worker's translator as the system under test does."""
    plan: Plan[Any] = Plan(
        device=device,
        precision=Precision.FP32,
        threads=1,
        max_batch=MOST,
        cache=cache,
        options=options,
    )
    networks = describe_transformer_networks(
        "torch",
        TransformerServingEncoder(model),
        TransformerServingDecoderStep(model),
        TorchConverter("cpu").copy_to_device,
        SHAPE,
        DECODING.beam,
    )
    executables = [TorchExecutable(each, plan, gpu) for each in networks]
    encoder, step = (each.open() for each in executables)
    tensors = TorchConverter("cpu")
    recorded = record_torch_steps(encoder, step, tensors, DECODING, MOST, LONGEST)
    return TransformerTranslator(tensors, encoder, step, DECODING, recorded), executables


def make_sentences(*lengths: int, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [
        np.array([*rng.integers(2, SHAPE.vocabulary, length - 1), 1], np.int32)
        for length in lengths
    ]


BATCHES = [(7,), (20, 3, 11), (16, 16, 15, 1, 9), (17, 2), (5, 6, 7, 8), (20,), (4,)]


def test_recorded_decoding_gives_the_tokens_of_eager_decoding(
    model: TransformerNetwork, tmp_path: Path
) -> None:
    """Padding of sentences, sources and masks, and what an earlier batch left in the caches, may
    change no answer; batches of many shapes follow each other in the same memory.
    """
    eager = build_torch_translator(model, DECODING, "cpu")
    recorded, _ = open_translator(model, tmp_path, RecordingGpu())
    lengths = set()
    for turn in range(2):
        for number, batch in enumerate(BATCHES):
            sentences = make_sentences(*batch, seed=10 * turn + number)
            expected = eager(sentences)
            assert recorded(sentences) == expected
            lengths |= {len(each) for each in expected}
    assert max(lengths) > 16, "some answers need a second part of the caches"
    assert len(lengths) > 5, "answers end at different positions"


def test_every_shape_is_recorded_when_a_worker_opens_it(
    model: TransformerNetwork, tmp_path: Path
) -> None:
    """Nothing is recorded inside LoadGen's clock; the encoder, once a batch, is not recorded."""
    gpu = RecordingGpu()
    translate, (encoder, step) = open_translator(model, tmp_path, gpu)
    parts = {16: 3, 32: 4}  # positions up to 36 and 52, in parts of 16
    assert gpu.recordings == len(RECORDED_SIZES) * sum(map(parts.get, RECORDED_LENGTHS))
    assert (encoder.describe()["cuda_graphs"], step.describe()["cuda_graphs"]) == (False, True)
    before = gpu.recordings
    for batch in BATCHES:
        translate(make_sentences(*batch))
    assert gpu.recordings == before


def test_a_step_runs_nothing_but_what_was_recorded(
    model: TransformerNetwork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would be as slow as before, with the right answers."""
    translate, _ = open_translator(model, tmp_path, RecordingGpu())
    monkeypatch.setattr(
        translate, "_step", lambda *inputs: pytest.fail("a recorded shape ran eager")
    )
    for batch in BATCHES:
        translate(make_sentences(*batch))


@pytest.mark.parametrize("batch", [(3,) * (MOST + 1), (33, 4)], ids=["sentences", "tokens"])
def test_shapes_that_were_not_recorded_run_eager(
    model: TransformerNetwork, tmp_path: Path, batch: tuple[int, ...]
) -> None:
    """From a network come sentences of any length."""
    translate, _ = open_translator(model, tmp_path, RecordingGpu())
    sentences = make_sentences(*batch)
    assert translate(sentences) == build_torch_translator(model, DECODING, "cpu")(sentences)


@pytest.mark.parametrize("most", [0, 3])
def test_a_recording_that_fails_is_said_once_and_decoding_runs_eager(
    model: TransformerNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], most: int
) -> None:
    """In one sentence, before the clock, at the first as at a later shape."""
    translate, (_, step) = open_translator(model, tmp_path, RecordingGpu(most=most))
    assert capsys.readouterr().err == (
        "engine torch: network decoder-step could not be recorded as CUDA graphs (operation not"
        " permitted); it runs eager\n"
    )
    assert step.describe()["cuda_graphs"] is False
    sentences = make_sentences(7, 12)
    assert translate(sentences) == build_torch_translator(model, DECODING, "cpu")(sentences)


@pytest.mark.parametrize(
    ("gpu", "options"), [(None, {}), (RecordingGpu(), {"engine.cuda_graphs": False})]
)
def test_without_a_gpu_or_graphs_nothing_is_recorded(
    model: TransformerNetwork, tmp_path: Path, gpu: RecordingGpu | None, options: dict[str, Any]
) -> None:
    translate, _ = open_translator(model, tmp_path, gpu, **options)
    assert translate._recorded is None and not (gpu and gpu.recordings)
    sentences = make_sentences(7, 12)
    assert translate(sentences) == build_torch_translator(model, DECODING, "cpu")(sentences)


def test_longer_answers_than_were_recorded_run_eager(
    model: TransformerNetwork, tmp_path: Path
) -> None:
    """The caches have room for the longest answer of the recipe, and no more."""
    translate, _ = open_translator(model, tmp_path, RecordingGpu())
    sentences = make_sentences(5)
    longer = replace(DECODING, extra_length=60)
    assert translate(sentences, extra_length=60) == build_torch_translator(model, longer, "cpu")(
        sentences
    )
