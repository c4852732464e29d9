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

# Legend: N images of a batch, K classes, H height, W width, C channels, O output channels.
Tensor: TypeAlias = Any
"""tf.Tensor; TensorFlow publishes no usable type information."""
Floats: TypeAlias = npt.NDArray[np.float32]
# He et al. 2015, table 1, 50-layer: bottlenecks of conv2_x to conv5_x
BOTTLENECKS_PER_STAGE: Final = (
    3,
    4,
    6,
    3,
)
RESNET50_BATCH_NORM_EPSILON: Final = 1e-5  # torch.nn.BatchNorm2d
CONVOLUTION_KERNEL_DIMENSIONS: Final = 4
TORCH_BATCH_COUNTER_SUFFIX: Final = "num_batches_tracked"
"""PyTorch's batch-norm counter, which inference does not need."""


def convert_resnet50_weights(state: Mapping[str, Floats]) -> dict[str, Floats]:
    """Convert PyTorch's weights to TensorFlow's layout: kernels O C H W to H W C O, the
    classifier's K C to C K.
    """
    return {
        name: convert_weight_layout(value)
        for name, value in state.items()
        if not name.endswith(TORCH_BATCH_COUNTER_SUFFIX)
    }


def convert_weight_layout(value: Floats) -> Floats:
    return np.ascontiguousarray(
        value.transpose(2, 3, 1, 0) if value.ndim == CONVOLUTION_KERNEL_DIMENSIONS else value.T
    )


class TensorFlowResNet50(tf.Module):  # type: ignore[misc]  # untyped
    """The network for inference: batch-norm uses its running statistics."""

    def __init__(self, weights: Mapping[str, Floats]) -> None:
        super().__init__()
        self.weights = {
            name: tf.Variable(value, trainable=False, name=name.replace(".", "_"))
            for name, value in weights.items()
        }

    def __call__(self, picture_NHWC: Tensor) -> Tensor:
        """Return the logits, N K."""
        stem_NHWC = tf.nn.relu(
            self.apply_batch_norm("bn1", self.apply_convolution("conv1", picture_NHWC, stride=2))
        )
        state_NHWC = tf.nn.max_pool2d(
            pad_feature_maps(stem_NHWC, 1, float("-inf")), ksize=3, strides=2, padding="VALID"
        )
        for stage, blocks in enumerate(BOTTLENECKS_PER_STAGE, 1):
            for block in range(blocks):
                state_NHWC = self.apply_bottleneck(
                    f"layer{stage}.{block}", state_NHWC, stride=2 if stage > 1 and block == 0 else 1
                )
        pooled_NC = tf.reduce_mean(state_NHWC, axis=[1, 2])
        return tf.matmul(pooled_NC, self.weights["fc.weight"]) + self.weights["fc.bias"]

    def apply_bottleneck(self, name: str, input_NHWC: Tensor, stride: int) -> Tensor:
        """Add the output of three convolutions to the input; v1.5: the stride is in the second."""
        inner_NHWC = tf.nn.relu(
            self.apply_batch_norm(
                f"{name}.bn1", self.apply_convolution(f"{name}.conv1", input_NHWC)
            )
        )
        inner_NHWC = tf.nn.relu(
            self.apply_batch_norm(
                f"{name}.bn2", self.apply_convolution(f"{name}.conv2", inner_NHWC, stride)
            )
        )
        inner_NHWC = self.apply_batch_norm(
            f"{name}.bn3", self.apply_convolution(f"{name}.conv3", inner_NHWC)
        )
        if f"{name}.downsample.0.weight" in self.weights:
            input_NHWC = self.apply_batch_norm(
                f"{name}.downsample.1",
                self.apply_convolution(f"{name}.downsample.0", input_NHWC, stride),
            )
        return tf.nn.relu(inner_NHWC + input_NHWC)

    def apply_convolution(self, name: str, input_NHWC: Tensor, stride: int = 1) -> Tensor:
        """Convolve, with the symmetric padding that keeps the size at stride 1."""
        kernel_HWCO = self.weights[f"{name}.weight"]
        return tf.nn.conv2d(
            pad_feature_maps(input_NHWC, kernel_HWCO.shape[0] // 2, 0.0),
            kernel_HWCO,
            strides=stride,
            padding="VALID",
        )

    def apply_batch_norm(self, name: str, input_NHWC: Tensor) -> Tensor:
        """Normalise each channel by its running statistics."""
        scale_C, offset_C, mean_C, variance_C = (
            self.weights[f"{name}.{part}"]
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        return tf.nn.batch_normalization(
            input_NHWC, mean_C, variance_C, offset_C, scale_C, RESNET50_BATCH_NORM_EPSILON
        )


def pad_feature_maps(input_NHWC: Tensor, size: int, value: float) -> Tensor:
    """Pad images on all sides."""
    if size:
        return tf.pad(
            input_NHWC, [[0, 0], [size, size], [size, size], [0, 0]], constant_values=value
        )
    return input_NHWC
