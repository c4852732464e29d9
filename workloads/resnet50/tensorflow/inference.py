"""The system under test in TensorFlow: the network that an engine compiles, and the conversion of
images to tensors.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf
import torch

from suite.engine import Engine, Shape
from suite.workload import Run
from workloads.common import tensorflow_threads
from workloads.resnet50.system_under_test import System
from workloads.resnet50.tensorflow.model import ResNet50, Tensor, carried_over

Floats: TypeAlias = npt.NDArray[np.float32]


class TensorFlowTensors:
    """Pictures of H W C: host arrays until they are batched."""

    framework = "tensorflow"

    def network(self, network: torch.nn.Module) -> ResNet50:
        """Build the network with PyTorch's weights."""
        return ResNet50(
            carried_over({name: value.numpy() for name, value in network.state_dict().items()})
        )

    def hold(self, picture_NCHW: torch.Tensor) -> Floats:
        """Keep a picture, channels-last."""
        return np.ascontiguousarray(picture_NCHW[0].permute(1, 2, 0).cpu().numpy())

    def raw(self, picture: Floats) -> bytes:
        """Return the picture's values as bytes."""
        return picture.tobytes()

    def parsed(self, payload: bytes, like: Floats) -> Floats:
        """Read the picture from bytes."""
        return np.frombuffer(payload, np.float32).reshape(like.shape)

    def shape(self, picture: Floats) -> Shape:
        """Return H W C."""
        return tuple(picture.shape)

    def batch(self, pictures: Sequence[Floats]) -> Tensor:
        """Stack pictures, and copy them to the device."""
        return tf.constant(np.stack(pictures))

    def best(self, logit_NK: Tensor, count: int) -> Sequence[Sequence[int]]:
        """Return the `count` likeliest classes of each picture, best first."""
        best_NA: list[list[int]] = tf.math.top_k(logit_NK, count).indices.numpy().tolist()
        return best_NA

    def mode(self) -> AbstractContextManager[object]:
        """Return a no-op context: TensorFlow records gradients only on request."""
        return nullcontext()


class ResNet50Inference(System[Floats, Tensor]):
    """A checkpoint, an engine and the pictures of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        tensorflow_threads.set_tensorflow_thread_limit(run.threads)
        super().__init__(run, checkpoint, engine, TensorFlowTensors())
