"""The system under test in PyTorch: the network that an engine compiles, and the conversion of
images to tensors.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import torch

from suite.engine import Engine, Shape
from suite.input import Reader
from suite.workload import Run
from workloads.common.pictures.served_pictures import (
    PictureBatcher,
    ServedPictures,
    can_serve_bytes,
)
from workloads.common.worker_stream import WorkerStream
from workloads.resnet50.system_under_test import ResNet50System


class TorchTensors:
    """Images in host memory, as bytes or normalised, and one worker's way to the device."""

    framework = "torch"

    def __init__(self, pictures: ServedPictures, device: torch.device) -> None:
        self._pictures, self._device = pictures, device
        self._batcher, self._stream = PictureBatcher(device), WorkerStream(device)

    def open_worker(self) -> "TorchTensors":
        """Return the same with memory and a stream of its own."""
        return TorchTensors(self._pictures, self._device)

    def convert_network(self, network: torch.nn.Module) -> torch.nn.Module:
        """Return the network unchanged."""
        return network

    def read_pictures(
        self, reader: Reader[Path, None], paths: Sequence[Path]
    ) -> Iterator[torch.Tensor]:
        """Read files into host memory."""
        return self._pictures.read_pictures(reader, paths)

    def build_blank_picture(self) -> torch.Tensor:
        """Return a blank image in host memory."""
        return self._pictures.blank

    def encode_picture(self, picture: torch.Tensor) -> bytes:
        """Return the image's values as bytes."""
        return self._pictures.encode_picture(picture)

    def decode_picture(self, payload: bytes) -> torch.Tensor:
        """Read the image from bytes."""
        return self._pictures.decode_picture(payload)

    @property
    def picture_shape(self) -> Shape:
        """Return C H W."""
        return tuple(self._pictures.normalised_CHW.shape)

    def copy_batch_to_device(self, pictures: Sequence[torch.Tensor]) -> torch.Tensor:
        """Batch images on the device."""
        return self._batcher.copy_to_device(pictures)

    def select_best_classes(self, logit_NK: torch.Tensor, count: int) -> Sequence[Sequence[int]]:
        """Return the `count` likeliest classes of each image, best first."""
        best_NA: list[list[int]] = self._stream.copy_to_host(logit_NK.topk(count).indices).tolist()
        return best_NA

    def compute_log_probabilities(self, logit_NK: torch.Tensor) -> Sequence[Sequence[float]]:
        """Return the natural logarithms of the probabilities of all classes of each image."""
        found = self._stream.copy_to_host(logit_NK.float().log_softmax(dim=-1))
        values: list[list[float]] = found.tolist()
        return values

    def enter_inference_mode(self) -> AbstractContextManager[object]:
        """Enter torch's inference mode and the worker's stream."""
        return self._stream.enter_inference()


class ResNet50Inference(ResNet50System[torch.Tensor, torch.Tensor]):
    """A checkpoint, an engine and the images of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        super().__init__(run, checkpoint, engine, partial(build_torch_tensors, run.device, engine))


def build_torch_tensors(device: str, engine: Engine[Any], side: int) -> TorchTensors:
    """Build what serves images of `side` pixels, as the engine takes them."""
    pictures = ServedPictures(device, side, as_bytes=can_serve_bytes(engine, device))
    return TorchTensors(pictures, torch.device(device))
