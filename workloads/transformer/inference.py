"""The system under test in PyTorch: the networks that an engine compiles, and the conversion of
arrays to tensors.
"""

from pathlib import Path
from typing import Any

import torch

from suite.engine import Engine, Network
from suite.workload import Run
from workloads.common import malloc, weights
from workloads.transformer.checkpoint import NAME
from workloads.transformer.model import DecoderStep, Encoder, Transformer
from workloads.transformer.recipe import Shape
from workloads.transformer.system_under_test import Parts, System, described
from workloads.transformer.translation.torch_tensors import TorchTensors


class TransformerInference(System):
    """A checkpoint, an engine and the sentences of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed()
        torch.set_num_threads(run.threads)
        super().__init__(
            run, checkpoint, engine, Parts(networks=networks, tensors=TorchTensors(run.device))
        )


def networks(
    checkpoint: Path, shape: Shape, beam: int
) -> tuple[Network[torch.Tensor], Network[torch.Tensor]]:
    """Load a checkpoint, and describe its networks for an engine."""
    model = weights.filled(lambda: Transformer(shape), checkpoint, NAME)
    return described(
        "torch", Encoder(model), DecoderStep(model), TorchTensors("cpu").put, shape, beam
    )
