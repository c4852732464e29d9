"""The system under test in TensorFlow: the networks that an engine compiles, and the conversion of
arrays to tensors.
"""

from pathlib import Path
from typing import Any

from extras.tensorflow.engine import limit_tensorflow_threads
from extras.tensorflow.transformer.model import (
    TensorFlowServingDecoderStep,
    TensorFlowServingEncoder,
    TensorFlowTensor,
    TensorFlowTransformer,
)
from extras.tensorflow.transformer.tensors import TensorFlowConverter, read_transformer_weights
from suite.engine import Engine, Network
from suite.workload import Run
from workloads.common import malloc
from workloads.transformer.recipe import TransformerShape
from workloads.transformer.system_under_test import (
    FrameworkParts,
    TransformerSystem,
    describe_transformer_networks,
)


class TransformerInference(TransformerSystem):
    """A checkpoint of either framework, an engine and the sentences of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        limit_tensorflow_threads(run.threads)
        super().__init__(
            run,
            checkpoint,
            engine,
            FrameworkParts(load_networks=load_tensorflow_networks, tensors=TensorFlowConverter()),
        )


def load_tensorflow_networks(
    checkpoint: Path, shape: TransformerShape, beam: int
) -> tuple[Network[TensorFlowTensor], Network[TensorFlowTensor]]:
    """Load a checkpoint, and describe its networks for an engine."""
    model = TensorFlowTransformer(shape, read_transformer_weights(shape, checkpoint))
    return describe_transformer_networks(
        "tensorflow",
        TensorFlowServingEncoder(model),
        TensorFlowServingDecoderStep(model),
        TensorFlowConverter().copy_to_device,
        shape,
        beam,
    )
