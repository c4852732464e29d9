"""TensorFlow behind the engine seam; what it says of itself needs no TensorFlow."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from extras.tensorflow import engine as engine_module
from extras.tensorflow import saved_model
from extras.tensorflow.engine import TensorFlowEngine, format_tensorflow_device
from extras.tensorflow.saved_model import convert_result_to_tuple
from suite.engine import Network, Plan
from suite.errors import MissingError, RequestError
from suite.terms import Precision


def plan(precision: Precision = Precision.FP32, cache: Path = Path(), **options: Any) -> Plan[Any]:
    named = {f"engine.{name}": value for name, value in options.items()}
    return Plan(
        device="cpu", precision=precision, threads=1, max_batch=4, cache=cache, options=named
    )


def network(module: Any, framework: str = "tensorflow", example: Any = None) -> Network[Any]:
    inputs = () if example is None else (example,)
    return Network(
        name="n",
        module=module,
        framework=framework,
        inputs=inputs,
        input_names=("x",),
        output_names=("y",),
        dimensions=({0: "batch"},),
    )


def test_a_missing_tensorflow_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """For doctor, and before a run."""
    monkeypatch.setattr(engine_module, "find_spec", lambda name: None)
    assert "[tensorflow]'" in str(TensorFlowEngine().missing("cpu", Precision.FP32))
    with pytest.raises(MissingError, match="tensorflow"):
        TensorFlowEngine().compile(network(None), plan())


def test_other_formats_are_not_there() -> None:
    """Said, not silently served in fp32."""
    assert "has no bf16" in str(TensorFlowEngine().missing("cpu", Precision.BF16))


def test_networks_of_other_frameworks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "find_spec", lambda name: object())
    with pytest.raises(RequestError, match="does not accept torch networks"):
        TensorFlowEngine().compile(network(None, "torch"), plan())


@pytest.mark.parametrize(
    ("device", "name"), [("cpu", "/CPU:0"), ("cuda", "/GPU:0"), ("cuda:1", "/GPU:1")]
)
def test_devices_have_tensorflow_s_names(device: str, name: str) -> None:
    assert format_tensorflow_device(device) == name


def test_outputs_are_a_tuple() -> None:
    """In the order of the module, also where there is but one."""
    assert (
        convert_result_to_tuple([1, 2]),
        convert_result_to_tuple((3,)),
        convert_result_to_tuple(4),
    ) == ((1, 2), (3,), (4,))


def test_asking_imports_nothing_heavy() -> None:
    """doctor asks every engine."""
    code = (
        "import sys; from extras.tensorflow.engine import TensorFlowEngine; from"
        " suite.terms import Precision; TensorFlowEngine().missing('cpu', Precision.FP32); assert"
        " 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.fixture(scope="module")
def tf() -> Any:
    return pytest.importorskip(
        "tensorflow",
        reason="TensorFlow is not installed: podium-suite[tensorflow]",
        exc_type=ImportError,
    )


def scaled(tf: Any, factor: float, traced: list[int] | None = None) -> Network[Any]:
    """Make a network with one weight; its calls are traces, once it is a graph."""

    class Scale(tf.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.weight = tf.Variable(factor)

        def __call__(self, x: Any) -> Any:
            if traced is not None:
                traced.append(1)
            return x * self.weight

    return network(Scale(), example=tf.zeros([1, 3]))


@pytest.mark.slow
def test_a_network_is_traced_once_for_all_batches_and_processes(tf: Any, tmp_path: Path) -> None:
    """A trace per batch size would fall into LoadGen's clock; a second process finds the
    SavedModel.
    """
    traced: list[int] = []
    for _ in range(2):
        executable = TensorFlowEngine().compile(scaled(tf, 2.0, traced), plan(cache=tmp_path))
        call = executable.open()
        for batch in (1, 2, 7):
            (found,) = call(tf.ones([batch, 3]))
            assert np.array_equal(found.numpy(), np.full((batch, 3), 2.0))
    assert traced == [1]
    assert executable.describe()["tensorflow"] == tf.__version__


@pytest.mark.slow
def test_fp32_is_not_tf32(tf: Any, tmp_path: Path) -> None:
    """TensorFlow rounds products to TF32 on GPUs that can, unless it is told not to."""
    tf.config.experimental.enable_tensor_float_32_execution(True)
    TensorFlowEngine().compile(scaled(tf, 2.0), plan(cache=tmp_path))
    assert not tf.config.experimental.tensor_float_32_execution_enabled()


@pytest.mark.slow
def test_xla_gives_the_same(tf: Any, tmp_path: Path) -> None:
    executable = TensorFlowEngine().compile(scaled(tf, 3.0), plan(cache=tmp_path, compile=True))
    assert np.array_equal(executable.open()(tf.ones([2, 3]))[0].numpy(), np.full((2, 3), 3.0))
    assert executable.describe()["compiled"] is True


@pytest.mark.slow
def test_other_weights_make_another_file(tf: Any) -> None:
    """A stale file would serve the weights of an earlier checkpoint."""
    assert (
        len({saved_model.compute_saved_model_key(scaled(tf, factor)) for factor in (2.0, 2.0, 4.0)})
        == 2
    )


@pytest.mark.slow
def test_a_saved_model_that_differs_from_its_source_is_refused(tf: Any) -> None:
    """It would be timed, and its accuracy blamed on the engine."""
    with pytest.raises(
        MissingError, match=r"SavedModel's y differs from its source by 0\.5 of its largest value"
    ):
        saved_model.check_frozen_outputs(
            network(None, example=tf.ones([2, 3])), lambda x: x * 0 + 2.0, lambda x: [x * 0 + 1.0]
        )


@pytest.mark.slow
def test_small_outputs_are_held_to_their_own_size(tf: Any) -> None:
    """Probabilities are small: a thousandth of 1 would be all of them."""
    with pytest.raises(
        MissingError, match=r"SavedModel's y differs from its source by 0\.5 of its largest value"
    ):
        saved_model.check_frozen_outputs(
            network(None, example=tf.ones([2, 3])), lambda x: x * 0 + 2e-3, lambda x: [x * 0 + 1e-3]
        )


@pytest.mark.slow
def test_files_are_on_the_disk_before_they_have_their_name(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of empty files after a power cut would be taken for the network for ever."""
    synced: list[str] = []
    monkeypatch.setattr(saved_model, "sync_to_disk", lambda path: synced.append(path.name))
    path = saved_model.ensure_saved_model(scaled(tf, 5.0), tmp_path)
    assert {each.name for each in path.rglob("*")} <= set(synced) and synced[-2:] == [
        "model",
        "tensorflow",
    ]


@pytest.mark.slow
def test_a_full_memory_names_the_batch(
    tf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow's own words name a tensor, not the setting to change."""
    executable = TensorFlowEngine().compile(scaled(tf, 2.0), plan(cache=tmp_path))

    def full(*_: Any) -> Any:
        raise tf.errors.ResourceExhaustedError(
            None, None, "OOM when allocating tensor with shape[8,3] and type float"
        )

    run, executable.run = executable.run, lambda x: full() if x.shape[0] > 4 else run(x)
    call = executable.open()
    call(tf.ones([4, 3]))
    with pytest.raises(
        MissingError, match="a batch of 8; the largest that fitted is 4: --set batching.max_batch=4"
    ):
        call(tf.ones([8, 3]))
