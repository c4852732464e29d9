"""The system under test in PyTorch: the networks that an engine compiles, and the conversion of
arrays to tensors.
"""

from pathlib import Path
from typing import Any

import torch

from suite.engine import Call, Engine, Network, list_recorded_batch_sizes
from suite.workload import Run
from workloads.common import malloc, weights
from workloads.transformer.checkpoint import TRANSFORMER_NAME
from workloads.transformer.model import (
    TransformerNetwork,
    TransformerServingDecoderStep,
    TransformerServingEncoder,
)
from workloads.transformer.recipe import DecodingParameters, TransformerShape
from workloads.transformer.system_under_test import (
    FrameworkParts,
    TransformerSystem,
    describe_transformer_networks,
)
from workloads.transformer.translation.recorded_steps import (
    DecodingLimits,
    RecordedSteps,
    record_decoder_steps,
)
from workloads.transformer.translation.torch_tensors import TorchConverter


class TransformerInference(TransformerSystem):
    """A checkpoint, an engine and the sentences of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        super().__init__(
            run,
            checkpoint,
            engine,
            FrameworkParts(
                load_networks=load_torch_networks,
                tensors=TorchConverter(run.device),
                record_steps=record_torch_steps,
            ),
        )


def record_torch_steps(
    encoder: Call[torch.Tensor],
    step: Call[torch.Tensor],
    tensors: TorchConverter,
    decoding: DecodingParameters,
    max_batch: int,
    longest_source: int,
) -> RecordedSteps | None:
    """Record a worker's decoder steps up to the largest batch of the longest sources."""
    limits = DecodingLimits(
        sizes=list_recorded_batch_sizes(max_batch), source_tokens=longest_source, decoding=decoding
    )
    return record_decoder_steps(encoder, step, limits, tensors.stream, tensors.device)


def load_torch_networks(
    checkpoint: Path, shape: TransformerShape, beam: int
) -> tuple[Network[torch.Tensor], Network[torch.Tensor]]:
    """Load a checkpoint, and describe its networks for an engine."""
    model = weights.build_exported_network(
        lambda: TransformerNetwork(shape), checkpoint, TRANSFORMER_NAME
    )
    return describe_transformer_networks(
        "torch",
        TransformerServingEncoder(model),
        TransformerServingDecoderStep(model),
        TorchConverter("cpu").copy_to_device,
        shape,
        beam,
    )
