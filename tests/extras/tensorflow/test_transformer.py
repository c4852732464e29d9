"""The same network in two frameworks: one set of weights, the same log-probabilities, translations
and steps.
"""

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from small_texts import make_run, make_with, small
from whole_pass import compute_target_logits

from suite.errors import MissingError, RequestError
from suite.workload import Precision, Run
from workloads.common import run_request
from workloads.common.weights_description import WEIGHTS_FILE
from workloads.transformer import WORKLOAD
from workloads.transformer import model as torch_model
from workloads.transformer.recipe import DecodingParameters, TransformerRecipe, TransformerShape
from workloads.transformer.training import TransformerTraining as TorchTraining
from workloads.transformer.training import build_transformer_optimizer, compute_summed_loss
from workloads.transformer.translation.torch_tensors import (
    build_torch_translator as torch_translator,
)

tf = pytest.importorskip(
    "tensorflow",
    reason="TensorFlow is not installed: podium-suite[tensorflow]",
    exc_type=ImportError,
)

from extras.tensorflow.engine import (  # noqa: E402
    TensorFlowEngine,
    format_tensorflow_device,
)
from extras.tensorflow.transformer import model, training  # noqa: E402
from extras.tensorflow.transformer.inference import TransformerInference  # noqa: E402
from extras.tensorflow.transformer.tensors import (  # noqa: E402
    TensorFlowConverter,
    build_tensorflow_translator,
    read_transformer_weights,
)

__all__ = ["make_run", "make_with", "small"]

pytestmark = pytest.mark.slow
MakeRun = Callable[..., Run]
SHAPE = TransformerShape(layers=2, width=32, filter=64, heads=4, vocabulary=40)
SOURCE_BS = np.array([[5, 6, 7, 1, 0, 0], [4, 3, 9, 8, 2, 1], [12, 1, 0, 0, 0, 0]])
TARGET_BT = np.array([[5, 6, 9, 11, 1], [7, 8, 1, 0, 0], [3, 1, 0, 0, 0]])
SENTENCES = [row[row != 0].astype(np.int32) for row in SOURCE_BS]
DECODING = DecodingParameters(beam=3, alpha=0.6, extra_length=5)


@pytest.fixture(scope="module")
def weights() -> dict[str, np.ndarray]:
    return model.generate_initial_weights(SHAPE, 3)


@pytest.fixture(scope="module")
def both(weights: dict[str, np.ndarray]) -> tuple[torch_model.TransformerNetwork, Any]:
    """One set of weights in both frameworks."""
    first = torch_model.TransformerNetwork(SHAPE).eval()
    first.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    return first, model.TensorFlowTransformer(SHAPE, weights)


def test_names_and_shapes_of_weights_are_pytorch_s() -> None:
    """One file serves both."""
    assert dict(model.list_weight_shapes(SHAPE)) == {
        name: tuple(value.shape)
        for name, value in torch_model.TransformerNetwork(SHAPE).state_dict().items()
    }


def test_the_same_weights_give_the_same_log_probabilities(
    both: tuple[torch_model.TransformerNetwork, Any],
) -> None:
    """In one pass over whole sentences."""
    first, second = both
    with torch.inference_mode():
        expected = compute_target_logits(
            first, torch.from_numpy(SOURCE_BS), torch.from_numpy(TARGET_BT)
        ).log_softmax(-1)
    found = tf.nn.log_softmax(second.logits(tf.constant(SOURCE_BS), tf.constant(TARGET_BT)))
    assert np.allclose(found.numpy(), expected.numpy(), atol=1e-5)


def test_the_same_weights_give_the_same_translations(
    both: tuple[torch_model.TransformerNetwork, Any],
) -> None:
    """Step by step with caches, under the one search."""
    with torch.inference_mode():
        expected = torch_translator(both[0], DECODING, "cpu")(SENTENCES)
    assert build_tensorflow_translator(both[1], DECODING)(SENTENCES) == expected


def test_decoding_step_by_step_gives_the_log_probabilities_of_a_full_pass(
    both: tuple[torch_model.TransformerNetwork, Any],
) -> None:
    """Caches, positions and masks of this framework against its own full pass."""
    second, beam, slots = both[1], 2, 2 * 16
    memory = model.TensorFlowServingEncoder(second)(tf.constant(SOURCE_BS))
    tensors = TensorFlowConverter()
    caches = tensors.build_empty_caches(memory[0], slots)
    mask_BKM, token_BK, found = (
        np.full((3, beam, slots), -1e9, np.float32),
        np.zeros((3, beam), np.int64),
        [],
    )
    for position in range(TARGET_BT.shape[1]):
        for hypothesis in range(beam):
            mask_BKM[:, hypothesis, position * beam + hypothesis] = 0.0
        given = (
            tf.constant(token_BK),
            tf.constant([position], tf.int64),
            tf.constant(mask_BKM),
            tf.constant(SOURCE_BS),
        )
        logit_BKV, *new = model.TensorFlowServingDecoderStep(second).compute_logits(
            *given, *memory, *caches
        )
        caches = tensors.update_caches(caches, new, position * beam)
        found.append(tf.nn.log_softmax(logit_BKV).numpy()[:, 1])
        token_BK = np.repeat(TARGET_BT[:, position : position + 1], beam, axis=1)
    full_NV = tf.nn.log_softmax(
        second.logits(tf.constant(SOURCE_BS), tf.constant(TARGET_BT))
    ).numpy()
    assert np.allclose(np.stack(found, axis=1)[TARGET_BT != 0], full_NV, atol=1e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_same(smoothing: float) -> None:
    """Which is held against float64 by hand in test_training.py."""
    logit_NV, label_N = (
        np.random.default_rng(1).normal(0, 2, (6, 9)).astype(np.float32),
        np.array([3, 1, 8, 3, 0, 5]),
    )
    expected = compute_summed_loss(
        torch.from_numpy(logit_NV), torch.from_numpy(label_N), smoothing
    ).item()
    found = float(
        tf.reduce_sum(
            training.compute_token_losses(tf.constant(logit_NV), tf.constant(label_N), smoothing)
        )
    )
    assert found == pytest.approx(expected, rel=1e-5)


def test_steps_move_weights_as_pytorch_s_do(
    both: tuple[torch_model.TransformerNetwork, Any],
    make_run: MakeRun,
    weights: dict[str, np.ndarray],
) -> None:
    """Gradients of every weight and Adam's two corrections: two steps from the same start end at
    the same weights.
    """
    recipe = replace(
        TransformerRecipe.build_from_settings(make_run().settings), base_rate=1e-3, epsilon=1e-6
    )
    first, second = (
        torch_model.TransformerNetwork(SHAPE),
        model.TensorFlowTransformer(SHAPE, weights),
    )
    first.load_state_dict(both[0].state_dict())
    torch_adam, adam = (
        build_transformer_optimizer(first, recipe),
        training.TensorFlowAdam(second, recipe),
    )
    label_N = TARGET_BT[TARGET_BT != 0]
    for number in range(2):
        torch_adam.zero_grad()
        (
            compute_summed_loss(
                compute_target_logits(
                    first, torch.from_numpy(SOURCE_BS), torch.from_numpy(TARGET_BT)
                ),
                torch.from_numpy(label_N),
                0.1,
            )
            / len(label_N)
        ).backward()
        torch_adam.step()
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                training.compute_token_losses(
                    second.compute_logits(tf.constant(SOURCE_BS), tf.constant(TARGET_BT)),
                    tf.constant(label_N),
                    0.1,
                )
            )
        adam.apply_gradients(
            tape.gradient(loss, list(second.weights.values())),
            tf.constant(number, tf.int64),
            tf.constant(1e-3),
        )
    for name, value in first.state_dict().items():
        assert np.allclose(second.weights[name].numpy(), value.numpy(), atol=2e-5), name


@pytest.fixture
def run(make_run: MakeRun) -> Run:
    return replace(
        make_run(opt_learning_rate_warmup_steps=5, opt_base_learning_rate=0.3, model__dropout=0.1),
        framework="tensorflow",
    )


def test_threads_are_those_of_the_run(run: Run, tmp_path: Path) -> None:
    """TensorFlow takes all cores unless it is told before it makes the first weight; the log would
    name a number that is not true.
    """
    (tmp_path / "run").write_bytes(pickle.dumps(replace(run, threads=3)))
    code = (
        "import pickle, sys, pathlib; from extras.tensorflow.transformer.training import"
        " TransformerTraining as"
        " Training\nTraining(pickle.loads(pathlib.Path(sys.argv[1]).read_bytes()))\nimport"
        " tensorflow as tf; assert tf.config.threading.get_intra_op_parallelism_threads() == 3"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=True, timeout=300)


def exported(trained: Any, folder: Path) -> dict[str, np.ndarray]:
    folder.mkdir()
    trained.export(folder)
    return dict(read_transformer_weights(trained._shape, folder))


def equal(first: dict[str, np.ndarray], second: dict[str, np.ndarray]) -> bool:
    return all(np.array_equal(first[name], second[name]) for name in first)


def test_it_learns(run: Run) -> None:
    """And yields each sentence once."""
    trained = training.TransformerTraining(run)
    losses = []
    for epoch in range(1, 6):
        yielded = 0
        for samples in trained.train_epoch(epoch):
            yielded += samples
            losses.append(trained.loss())
        assert yielded == 48
    assert sum(losses[-5:]) < sum(losses[:5]) - 2.5
    assert set(trained.evaluate()) == {"bleu"}


def test_resume_in_an_epoch_is_exact(run: Run, tmp_path: Path) -> None:
    """Weights, Adam's means and dropout's seeds: as if nothing had happened."""
    whole = training.TransformerTraining(run)
    list(whole.train_epoch(1))
    cut = training.TransformerTraining(run)
    with closing(cut.train_epoch(1)) as steps:
        list(islice(steps, 2))
    (tmp_path / "state").mkdir()
    cut.save(tmp_path / "state")
    resumed = training.TransformerTraining(run)
    resumed.restore(tmp_path / "state")
    list(resumed.train_epoch(1, first_step=2))
    assert equal(exported(whole, tmp_path / "whole"), exported(resumed, tmp_path / "resumed"))


@pytest.fixture
def checkpoints(run: Run, make_run: MakeRun, tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Of PyTorch and of TensorFlow."""
    folders = (tmp_path / "torch", tmp_path / "tensorflow")
    for folder, trained in zip(
        folders, (TorchTraining(make_run()), training.TransformerTraining(run)), strict=True
    ):
        folder.mkdir()
        trained.export(folder)
    yield folders


def test_checkpoints_of_either_framework_are_served_by_either(
    run: Run, make_run: MakeRun, checkpoints: tuple[Path, Path]
) -> None:
    """They are one format: the same answers from the same file, through each framework's engine."""
    from harness.engines.torch import TorchEngine
    from workloads.transformer.inference import TransformerInference as TorchInference

    for folder in checkpoints:
        served = [
            TransformerInference(run, folder, TensorFlowEngine()),
            TorchInference(make_run(), folder, TorchEngine()),
        ]
        for system in served:
            system.load(range(12))
        first, second = (system.open(0, 4)(range(12)) for system in served)
        assert list(first) == list(second)


def test_weights_that_do_not_fit_are_named(checkpoints: tuple[Path, Path], run: Run) -> None:
    """Another shape, or a file that is none."""
    with pytest.raises(RequestError, match="does not fit transformer"):
        read_transformer_weights(SHAPE, checkpoints[0])
    (checkpoints[0] / WEIGHTS_FILE).write_bytes(b"rubbish")
    with pytest.raises(RequestError, match="does not fit transformer"):
        TransformerInference(run, checkpoints[0], TensorFlowEngine())


def test_the_workload_makes_both_halves(run: Run, checkpoints: tuple[Path, Path]) -> None:
    """`--framework tensorflow` is all that a user says."""
    assert isinstance(WORKLOAD.build_training(run), training.TransformerTraining)
    assert isinstance(
        WORKLOAD.build_inference(run, checkpoints[1], TensorFlowEngine()), TransformerInference
    )


def test_fp32_is_not_tf32(run: Run) -> None:
    """TensorFlow rounds products to TF32 on GPUs that can, unless it is told not to."""
    tf.config.experimental.enable_tensor_float_32_execution(True)
    training.prepare_tensorflow_training(run)
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [("precision", Precision.BF16, "bf16"), ("world_size", 2, "one rank")],
)
def test_what_there_is_no_code_for_is_refused(run: Run, field: str, value: Any, told: str) -> None:
    """Before any data is made."""
    with pytest.raises(RequestError, match=told):
        training.TransformerTraining(replace(run, **{field: value}))


def test_a_missing_tensorflow_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """That names the extra."""
    monkeypatch.setattr(run_request, "find_spec", lambda name: None)
    with pytest.raises(MissingError, match=r"\[tensorflow\]'"):
        WORKLOAD.build_training(run)


@pytest.mark.parametrize(("device", "name"), [("cpu", "/CPU:0"), ("cuda:1", "/GPU:1")])
def test_devices_have_tensorflow_s_names(device: str, name: str) -> None:
    assert format_tensorflow_device(device) == name
