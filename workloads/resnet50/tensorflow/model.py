"""The network of workloads/resnet50/model.py in TensorFlow: ResNet-50 v1.5, channels-last, with
weights converted from PyTorch's.

Padding is PyTorch's, given explicitly: TensorFlow's SAME aligns a stride of 2 differently. Sources
are cited in the PyTorch file.
"""

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

# Legend: N pictures of a batch, K classes, H height, W width, C channels, O output channels.
Tensor: TypeAlias = Any
"""tf.Tensor; TensorFlow publishes no usable type information."""
Floats: TypeAlias = npt.NDArray[np.float32]
BLOCKS: Final = (3, 4, 6, 3)  # He et al. 2015, table 1, 50-layer: bottlenecks of conv2_x to conv5_x
EPSILON: Final = 1e-5  # torch.nn.BatchNorm2d
KERNEL_DIMENSIONS: Final = 4
COUNTER: Final = "num_batches_tracked"
"""PyTorch's batch-norm counter, which inference does not need."""


def carried_over(state: Mapping[str, Floats]) -> dict[str, Floats]:
    """Convert PyTorch's weights to TensorFlow's layout: kernels O C H W to H W C O, the
    classifier's K C to C K.
    """
    return {name: turned(value) for name, value in state.items() if not name.endswith(COUNTER)}


def turned(value: Floats) -> Floats:
    """Convert one weight."""
    return np.ascontiguousarray(
        value.transpose(2, 3, 1, 0) if value.ndim == KERNEL_DIMENSIONS else value.T
    )


class ResNet50(tf.Module):  # type: ignore[misc]  # untyped
    """The network for inference: batch-norm uses its running statistics."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        super().__init__()
        self.weights = {
            name: tf.Variable(value, trainable=False, name=name.replace(".", "_"))
            for name, value in weights.items()
        }

    def __call__(self, picture_NHWC: Tensor) -> Tensor:
        """Return the logits, N K."""
        stem_NHWC = tf.nn.relu(self.norm("bn1", self.conv("conv1", picture_NHWC, stride=2)))
        state_NHWC = tf.nn.max_pool2d(
            padded(stem_NHWC, 1, float("-inf")), ksize=3, strides=2, padding="VALID"
        )
        for stage, blocks in enumerate(BLOCKS, 1):
            for block in range(blocks):
                state_NHWC = self.bottleneck(
                    f"layer{stage}.{block}", state_NHWC, stride=2 if stage > 1 and block == 0 else 1
                )
        pooled_NC = tf.reduce_mean(state_NHWC, axis=[1, 2])
        return tf.matmul(pooled_NC, self.weights["fc.weight"]) + self.weights["fc.bias"]

    def bottleneck(self, name: str, input_NHWC: Tensor, stride: int) -> Tensor:
        """Add the output of three convolutions to the input; v1.5: the stride is in the second."""
        inner_NHWC = tf.nn.relu(self.norm(f"{name}.bn1", self.conv(f"{name}.conv1", input_NHWC)))
        inner_NHWC = tf.nn.relu(
            self.norm(f"{name}.bn2", self.conv(f"{name}.conv2", inner_NHWC, stride))
        )
        inner_NHWC = self.norm(f"{name}.bn3", self.conv(f"{name}.conv3", inner_NHWC))
        if f"{name}.downsample.0.weight" in self.weights:
            input_NHWC = self.norm(
                f"{name}.downsample.1", self.conv(f"{name}.downsample.0", input_NHWC, stride)
            )
        return tf.nn.relu(inner_NHWC + input_NHWC)

    def conv(self, name: str, input_NHWC: Tensor, stride: int = 1) -> Tensor:
        """Convolve, with the symmetric padding that keeps the size at stride 1."""
        kernel_HWCO = self.weights[f"{name}.weight"]
        return tf.nn.conv2d(
            padded(input_NHWC, kernel_HWCO.shape[0] // 2, 0.0),
            kernel_HWCO,
            strides=stride,
            padding="VALID",
        )

    def norm(self, name: str, input_NHWC: Tensor) -> Tensor:
        """Normalise each channel by its running statistics."""
        scale_C, offset_C, mean_C, variance_C = (
            self.weights[f"{name}.{part}"]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return tf.nn.batch_normalization(input_NHWC, mean_C, variance_C, offset_C, scale_C, EPSILON)


def padded(input_NHWC: Tensor, size: int, value: float) -> Tensor:
    """Pad pictures on all sides."""
    return (
        tf.pad(input_NHWC, [[0, 0], [size, size], [size, size], [0, 0]], constant_values=value)
        if size
        else input_NHWC
    )
