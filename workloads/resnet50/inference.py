"""The system under test in PyTorch: the network that an engine compiles, and how pictures become tensors."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from suite.engine import Engine, Shape
from suite.workload import Run
from workloads.resnet50.system import System


class TorchTensors:
    """Pictures of C H W on a device."""

    framework = "torch"

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def network(self, network: torch.nn.Module) -> torch.nn.Module:
        """Take the network as it is."""
        return network

    def put(self, picture_NCHW: torch.Tensor) -> torch.Tensor:
        """Bring a picture to the device."""
        return picture_NCHW[0].contiguous().to(self.device)

    def shape(self, picture: torch.Tensor) -> Shape:
        """Give C H W."""
        return tuple(picture.shape)

    def batch(self, pictures: Sequence[torch.Tensor]) -> torch.Tensor:
        """Put pictures side by side."""
        return torch.stack(list(pictures))

    def best(self, logit_NK: torch.Tensor, count: int) -> Sequence[Sequence[int]]:
        """Give so many classes of each picture, the likeliest first."""
        best_NA: list[list[int]] = logit_NK.topk(count).indices.tolist()
        return best_NA

    def mode(self) -> AbstractContextManager[object]:
        """Enter torch's inference mode."""
        return torch.inference_mode()


class ResNet50Inference(System[torch.Tensor]):
    """A checkpoint, an engine and the pictures of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        super().__init__(run, checkpoint, engine, TorchTensors(run.device))
