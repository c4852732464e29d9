"""The system under test in PyTorch: the network that an engine compiles, and the conversion of
images to tensors.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from suite.engine import Engine, Shape
from suite.workload import Run
from workloads.common.payloads import decode_tensor, encode_tensor
from workloads.common.pictures.in_memory import copy_sample_to_host, stack_samples_on_device
from workloads.resnet50.system_under_test import ResNet50System


class TorchTensors:
    """Images of C H W in host memory."""

    framework = "torch"

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)

    def convert_network(self, network: torch.nn.Module) -> torch.nn.Module:
        """Return the network unchanged."""
        return network

    def convert_picture(self, picture_NCHW: torch.Tensor) -> torch.Tensor:
        """Keep an image in host memory."""
        return copy_sample_to_host(picture_NCHW[0].contiguous(), self.device.type)

    def encode_picture(self, picture: torch.Tensor) -> bytes:
        """Return the image's values as bytes."""
        return encode_tensor(picture)

    def decode_picture(self, payload: bytes, like: torch.Tensor) -> torch.Tensor:
        """Read the image from bytes."""
        return decode_tensor(payload, like)

    def get_shape(self, picture: torch.Tensor) -> Shape:
        """Return C H W."""
        return tuple(picture.shape)

    def copy_batch_to_device(self, pictures: Sequence[torch.Tensor]) -> torch.Tensor:
        """Stack images on the device."""
        return stack_samples_on_device(pictures, self.device)

    def select_best_classes(self, logit_NK: torch.Tensor, count: int) -> Sequence[Sequence[int]]:
        """Return the `count` likeliest classes of each image, best first."""
        best_NA: list[list[int]] = logit_NK.topk(count).indices.tolist()
        return best_NA

    def enter_inference_mode(self) -> AbstractContextManager[object]:
        """Enter torch's inference mode."""
        return torch.inference_mode()


class ResNet50Inference(ResNet50System[torch.Tensor, torch.Tensor]):
    """A checkpoint, an engine and the images of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        super().__init__(run, checkpoint, engine, TorchTensors(run.device))
