"""A tiny Transformer in TensorFlow for `podium doctor`; see workloads/transformer/trial.py."""

from collections.abc import Sequence

import tensorflow as tf

from extras.tensorflow.transformer.model import (
    TensorFlowServingDecoderStep,
    TensorFlowServingEncoder,
    TensorFlowTensor,
    TensorFlowTransformer,
    generate_initial_weights,
    return_unchanged,
)
from extras.tensorflow.transformer.tensors import TensorFlowConverter
from extras.tensorflow.transformer.training import (
    check_tensorflow_precision,
    compute_token_losses,
)
from suite.engine import Network, Precision
from workloads.transformer.system_under_test import describe_transformer_networks
from workloads.transformer.trial import (
    TRANSFORMER_TRIAL_BEAM,
    TRANSFORMER_TRIAL_SHAPE,
    TRANSFORMER_TRIAL_SMOOTHING,
    TRANSFORMER_TRIAL_TOKEN,
)


class TensorFlowPrecisionTrial:
    """A training step, and the serving networks."""

    @property
    def networks(self) -> Sequence[Network[TensorFlowTensor]]:
        """Return the networks that an engine is to compile."""
        transformer = TensorFlowTransformer(
            TRANSFORMER_TRIAL_SHAPE, generate_initial_weights(TRANSFORMER_TRIAL_SHAPE, 0)
        )
        return describe_transformer_networks(
            "tensorflow",
            TensorFlowServingEncoder(transformer),
            TensorFlowServingDecoderStep(transformer),
            TensorFlowConverter().copy_to_device,
            TRANSFORMER_TRIAL_SHAPE,
            TRANSFORMER_TRIAL_BEAM,
        )

    def step(self, precision: Precision) -> None:
        """Compute the gradient of a batch."""
        check_tensorflow_precision(precision)
        transformer, source_NS = (
            TensorFlowTransformer(
                TRANSFORMER_TRIAL_SHAPE, generate_initial_weights(TRANSFORMER_TRIAL_SHAPE, 0)
            ),
            tf.fill([2, 4], tf.constant(TRANSFORMER_TRIAL_TOKEN, tf.int64)),
        )
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                compute_token_losses(
                    transformer.compute_logits(source_NS, source_NS, return_unchanged),
                    tf.reshape(source_NS, [-1]),
                    TRANSFORMER_TRIAL_SMOOTHING,
                )
            )
        tape.gradient(loss, list(transformer.weights.values()))


def build_transformer_trial(_: str) -> TensorFlowPrecisionTrial:
    """Return the trial; TensorFlow places its tensors itself, so the device is ignored."""
    return TensorFlowPrecisionTrial()
