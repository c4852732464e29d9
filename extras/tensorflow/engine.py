"""The TensorFlow engine: tf.Modules in fp32, traced once for all sizes of their named dimensions,
and cached as SavedModels.

Imports tensorflow only when a network is built, so that `missing` stays cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from harness.engines.outputs import wrap_with_memory_report
from suite.errors import MissingError, RequestError
from suite.process.installation import format_install_command
from suite.terms import Precision

if TYPE_CHECKING:
    from suite.engine import Network, Plan
    from suite.rounds import HyperValue

TENSORFLOW_NAME = "tensorflow"
XLA_OPTION = "engine.compile"
"""The setting's name in a plan's options: XLA, which recompiles for each size."""


class TensorFlowEngine:
    """Runs TensorFlow networks."""

    name: ClassVar[str] = TENSORFLOW_NAME
    accepts: ClassVar[frozenset[str]] = frozenset({TENSORFLOW_NAME})
    options: ClassVar[frozenset[str]] = frozenset({XLA_OPTION})

    def missing(self, device: str, precision: Precision) -> str | None:
        """Return what this machine lacks, without importing TensorFlow."""
        if precision is not Precision.FP32:
            return f"has no {precision}; it has {Precision.FP32}"
        if find_spec(TENSORFLOW_NAME):
            return None
        return f"TensorFlow is not installed: {format_install_command(self.name)}"

    def compile(self, network: Network[Any], plan: Plan[Any]) -> TensorFlowExecutable:
        """Trace a network for the plan; MissingError if that fails."""
        lacking = self.missing(plan.device, plan.precision)
        if lacking:
            raise MissingError(f"engine {self.name}: {lacking}")
        if network.framework not in self.accepts:
            raise RequestError(f"engine {self.name} does not accept {network.framework} networks")
        return TensorFlowExecutable(network, plan)


class TensorFlowExecutable:
    """A traced network; the dimensions that the network names are dynamic."""

    def __init__(self, network: Network[Any], plan: Plan[Any]) -> None:
        import tensorflow as tf

        from extras.tensorflow import saved_model

        limit_tensorflow_threads(plan.threads)
        # enabled by default, and would be reported as fp32
        tf.config.experimental.enable_tensor_float_32_execution(False)
        self.device = format_tensorflow_device(plan.device)
        self.compiled = bool(plan.options.get(XLA_OPTION))
        path, wanted = (
            saved_model.ensure_saved_model(network, plan.cache),
            saved_model.build_input_signature(network),
        )
        # keep the model alive: its functions depend on it
        self.model = tf.saved_model.load(str(path))
        self.run = self.model.run.get_concrete_function(*wanted)
        if self.compiled:
            self.run = tf.function(
                self.model.run, input_signature=wanted, autograph=False, jit_compile=True
            ).get_concrete_function()
        self.facts: dict[str, HyperValue] = {
            "tensorflow": tf.__version__,
            "precision": plan.precision.value,
            "compiled": self.compiled,
            "file": path.name,
            "weights": "constants of a SavedModel",
            "threads": plan.threads,
        }

    def open(self) -> Callable[..., tuple[Any, ...]]:
        """Build one worker's call, which sets the device in its own thread."""
        import tensorflow as tf

        device, run = self.device, self.run

        def run_on_device(*inputs: Any) -> tuple[Any, ...]:
            with tf.device(device):
                return tuple(run(*inputs))

        return wrap_with_memory_report(TENSORFLOW_NAME, run_on_device)

    def describe(self) -> Mapping[str, HyperValue]:
        """Describe what was built."""
        return self.facts


def limit_tensorflow_threads(threads: int) -> None:
    """Run one operation at a time on this many threads. A process that has already computed
    something, initial weights included, keeps its setting.
    """
    import tensorflow as tf

    with suppress(RuntimeError):
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def format_tensorflow_device(device: str) -> str:
    """Return TensorFlow's name of a device: cuda:1 is /GPU:1."""
    kind, _, number = device.partition(":")
    return f"/{'GPU' if kind == 'cuda' else 'CPU'}:{number or 0}"
