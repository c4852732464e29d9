"""A tiny TensorFlow network like ResNet-50 for `podium doctor`: a convolution, pooling, a linear
layer; for serving only.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from suite.engine import Network, Precision
from suite.errors import RequestError
from workloads.common.dtype_trial import TRIAL_CHANNELS, TRIAL_PICTURE_NCHW
from workloads.resnet50.model import RESNET50_NAME

TENSORFLOW_TRIAL_CLASSES = 4


class TensorFlowTrialNetwork(tf.Module):  # type: ignore[misc]  # untyped
    """The network."""

    def __init__(self) -> None:
        super().__init__()
        colours = TRIAL_PICTURE_NCHW[1]
        self.kernel = tf.Variable(
            np.full((3, 3, colours, TRIAL_CHANNELS), 0.1, np.float32), trainable=False
        )
        self.classes = tf.Variable(
            np.full((TRIAL_CHANNELS, TENSORFLOW_TRIAL_CLASSES), 0.1, np.float32), trainable=False
        )

    def __call__(self, picture_NHWC: Any) -> Any:
        """Return the logits, N K."""
        map_NHWC = tf.nn.relu(tf.nn.conv2d(picture_NHWC, self.kernel, strides=2, padding="SAME"))
        return tf.matmul(tf.reduce_mean(map_NHWC, axis=[1, 2]), self.classes)


class TensorFlowServingTrial:
    """The serving network."""

    @property
    def networks(self) -> Sequence[Network[Any]]:
        """Return the networks that an engine is to compile."""
        count, colours, height, width = TRIAL_PICTURE_NCHW
        pictures = tf.zeros([count, height, width, colours])
        return [
            Network(
                name=f"{RESNET50_NAME}-trial",
                module=TensorFlowTrialNetwork(),
                framework="tensorflow",
                inputs=(pictures,),
                input_names=("picture",),
                output_names=("logit",),
            )
        ]

    def step(self, precision: Precision) -> None:
        """Raise an error: training is not implemented."""
        raise RequestError(f"precision {precision}: {RESNET50_NAME} is trained in PyTorch")


def build_resnet50_trial(_: str) -> TensorFlowServingTrial:
    """Return the trial; TensorFlow places its tensors itself, so the device is ignored."""
    return TensorFlowServingTrial()
