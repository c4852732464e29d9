"""The system under test in TensorFlow: the network that an engine compiles, and the conversion of
images to tensors.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import torch

from extras.tensorflow.engine import limit_tensorflow_threads
from extras.tensorflow.resnet50.model import Tensor, TensorFlowResNet50, convert_resnet50_weights
from suite.engine import Engine, Shape
from suite.input import Reader
from suite.workload import Run
from workloads.common.pictures.files import iterate_normalised_pictures
from workloads.resnet50.system_under_test import ResNet50System

Floats: TypeAlias = npt.NDArray[np.float32]


class TensorFlowTensors:
    """Images of H W C: host arrays until they are batched."""

    framework = "tensorflow"

    def __init__(self, side: int) -> None:
        self.picture_shape: Shape = (side, side, 3)

    def open_worker(self) -> "TensorFlowTensors":
        """Return this: workers share nothing that changes."""
        return self

    def convert_network(self, network: torch.nn.Module) -> TensorFlowResNet50:
        """Build the network with PyTorch's weights."""
        return TensorFlowResNet50(
            convert_resnet50_weights(
                {name: value.numpy() for name, value in network.state_dict().items()}
            )
        )

    def read_pictures(self, reader: Reader[Path, None], paths: Sequence[Path]) -> Iterator[Floats]:
        """Read files, channels-last."""
        return (
            np.ascontiguousarray(picture_1CHW[0].permute(1, 2, 0).cpu().numpy())
            for picture_1CHW in iterate_normalised_pictures(reader, paths)
        )

    def build_blank_picture(self) -> Floats:
        """Build a blank image."""
        return np.zeros(self.picture_shape, np.float32)

    def encode_picture(self, picture: Floats) -> bytes:
        """Return the image's values as bytes."""
        return picture.tobytes()

    def decode_picture(self, payload: bytes) -> Floats:
        """Read the image from bytes."""
        return np.frombuffer(payload, np.float32).reshape(self.picture_shape)

    def copy_batch_to_device(self, pictures: Sequence[Floats]) -> Tensor:
        """Stack images, and copy them to the device."""
        return tf.constant(np.stack(pictures))

    def select_best_classes(self, logit_NK: Tensor, count: int) -> Sequence[Sequence[int]]:
        """Return the `count` likeliest classes of each image, best first."""
        best_NA: list[list[int]] = tf.math.top_k(logit_NK, count).indices.numpy().tolist()
        return best_NA

    def compute_log_probabilities(self, logit_NK: Tensor) -> Sequence[Sequence[float]]:
        """Return the natural logarithms of the probabilities of all classes of each image."""
        values: list[list[float]] = (
            tf.nn.log_softmax(tf.cast(logit_NK, tf.float32)).numpy().tolist()
        )
        return values

    def enter_inference_mode(self) -> AbstractContextManager[object]:
        """Return a no-op context: TensorFlow records gradients only on request."""
        return nullcontext()


class ResNet50Inference(ResNet50System[Floats, Tensor]):
    """A checkpoint, an engine and the images of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        limit_tensorflow_threads(run.threads)
        super().__init__(run, checkpoint, engine, TensorFlowTensors)
