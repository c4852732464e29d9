"""A tiny Transformer in TensorFlow for `podium doctor`; see workloads/transformer/trial.py."""

from collections.abc import Sequence

import tensorflow as tf

from suite.engine import Network, Precision
from workloads.transformer.system_under_test import described
from workloads.transformer.tensorflow.model import (
    DecoderStep,
    Encoder,
    Tensor,
    Transformer,
    kept,
    start,
)
from workloads.transformer.tensorflow.tensors import TensorFlowTensors
from workloads.transformer.tensorflow.training import check_precision, loss_of
from workloads.transformer.trial import BEAM, SHAPE, SMOOTHING, TOKEN


class Trial:
    """A training step, and the serving networks."""

    @property
    def networks(self) -> Sequence[Network[Tensor]]:
        """Return the networks that an engine is to compile."""
        made = Transformer(SHAPE, start(SHAPE, 0))
        return described(
            "tensorflow", Encoder(made), DecoderStep(made), TensorFlowTensors().put, SHAPE, BEAM
        )

    def step(self, precision: Precision) -> None:
        """Compute the gradient of a batch."""
        check_precision(precision)
        made, source_NS = (
            Transformer(SHAPE, start(SHAPE, 0)),
            tf.fill([2, 4], tf.constant(TOKEN, tf.int64)),
        )
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                loss_of(
                    made.logits(source_NS, source_NS, kept), tf.reshape(source_NS, [-1]), SMOOTHING
                )
            )
        tape.gradient(loss, list(made.weights.values()))


def trial(_: str) -> Trial:
    """Return the trial; TensorFlow places its tensors itself, so the device is ignored."""
    return Trial()
