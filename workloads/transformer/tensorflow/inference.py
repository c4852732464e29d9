"""The system under test in TensorFlow: the networks that an engine compiles, and the conversion of
arrays to tensors.
"""

from pathlib import Path
from typing import Any

from suite.engine import Engine, Network
from suite.workload import Run
from workloads.common import malloc, tensorflow_threads
from workloads.transformer.recipe import Shape
from workloads.transformer.system_under_test import Parts, System, described
from workloads.transformer.tensorflow.model import DecoderStep, Encoder, Tensor, Transformer
from workloads.transformer.tensorflow.tensors import TensorFlowTensors, read_weights


class TransformerInference(System):
    """A checkpoint of either framework, an engine and the sentences of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed()
        tensorflow_threads.limit(run.threads)
        super().__init__(
            run, checkpoint, engine, Parts(networks=networks, tensors=TensorFlowTensors())
        )


def networks(checkpoint: Path, shape: Shape, beam: int) -> tuple[Network[Tensor], Network[Tensor]]:
    """Load a checkpoint, and describe its networks for an engine."""
    model = Transformer(shape, read_weights(shape, checkpoint))
    return described(
        "tensorflow", Encoder(model), DecoderStep(model), TensorFlowTensors().put, shape, beam
    )
