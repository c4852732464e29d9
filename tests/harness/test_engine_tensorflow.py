"""TensorFlow behind the engine seam; what it says of itself needs no TensorFlow."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.engines import tensorflow as engine_module
from harness.engines.tensorflow import TensorFlowEngine, as_tuple, tf_device
from suite.engine import Network, Plan
from suite.errors import MissingError, RequestError
from suite.terms import Precision


def plan(precision: Precision = Precision.FP32) -> Plan[Any]:
    return Plan(device="cpu", precision=precision, threads=1, max_batch=4, cache=Path())


def network(module: Any, framework: str = "tensorflow", example: Any = None) -> Network[Any]:
    inputs = () if example is None else (example,)
    return Network(name="n", module=module, framework=framework, inputs=inputs, input_names=("x",), output_names=("y",), dimensions=({0: "batch"},))


def test_a_missing_tensorflow_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """For doctor, and before a run."""
    monkeypatch.setattr(engine_module, "find_spec", lambda name: None)
    assert "podium-suite[tensorflow]" in str(TensorFlowEngine().missing("cpu", Precision.FP32))
    with pytest.raises(MissingError, match="tensorflow"):
        TensorFlowEngine().compile(network(None), plan())


def test_other_formats_are_not_there() -> None:
    """Said, not silently served in fp32."""
    assert "has no bf16" in str(TensorFlowEngine().missing("cpu", Precision.BF16))


def test_networks_of_other_frameworks_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "find_spec", lambda name: object())
    with pytest.raises(RequestError, match="takes no networks of torch"):
        TensorFlowEngine().compile(network(None, "torch"), plan())


@pytest.mark.parametrize(("device", "name"), [("cpu", "/CPU:0"), ("cuda", "/GPU:0"), ("cuda:1", "/GPU:1")])
def test_devices_have_tensorflow_s_names(device: str, name: str) -> None:
    assert tf_device(device) == name


def test_outputs_are_a_tuple() -> None:
    """In the order of the module, also where there is but one."""
    assert (as_tuple([1, 2]), as_tuple((3,)), as_tuple(4)) == ((1, 2), (3,), (4,))


def test_asking_imports_nothing_heavy() -> None:
    """doctor asks every engine."""
    code = (
        "import sys; from harness.engines.tensorflow import TensorFlowEngine; from suite.terms import Precision; "
        "TensorFlowEngine().missing('cpu', Precision.FP32); assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.slow
def test_a_network_is_traced_once_for_all_batches() -> None:
    """A trace per batch size would fall into LoadGen's clock."""
    tf = pytest.importorskip("tensorflow", reason="TensorFlow is not installed: podium-suite[tensorflow]", exc_type=ImportError)
    traced = []

    class Double(tf.Module):  # type: ignore[misc]
        def __call__(self, x: Any) -> Any:
            traced.append(1)
            return x * 2.0

    executable = TensorFlowEngine().compile(network(Double(), example=tf.zeros([1, 3])), plan())
    call = executable.open()
    for batch in (1, 2, 7):
        (found,) = call(tf.ones([batch, 3]))
        assert np.array_equal(found.numpy(), np.full((batch, 3), 2.0))
    assert traced == [1]
    assert executable.describe()["tensorflow"] == tf.__version__
