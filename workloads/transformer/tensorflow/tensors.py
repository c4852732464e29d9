"""Conversion between arrays and TensorFlow tensors for the search, weight files, and the translator
used during training.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from safetensors import SafetensorError
from safetensors.numpy import load_file

from suite.errors import RequestError
from workloads.common.weights_description import WEIGHTS
from workloads.transformer.checkpoint import NAME
from workloads.transformer.recipe import Decoding, Shape
from workloads.transformer.tensorflow.model import DecoderStep, Encoder, Tensor, Transformer, names
from workloads.transformer.translation.beam_search import Floats, Ints
from workloads.transformer.translation.decoding import Translator


class TensorFlowTensors:
    """Copies arrays to the device and back."""

    def put(self, array: Ints | Floats) -> Tensor:
        """Copy an array to the device."""
        return tf.constant(array)

    def take(self, tensor: Tensor) -> npt.NDArray[np.generic]:
        """Copy a tensor back to the host."""
        found: npt.NDArray[np.generic] = tensor.numpy()
        return found

    def caches(self, memory: Tensor, slots: int) -> tuple[Tensor, Tensor]:
        """Create empty key and value caches for a memory of L B H S D."""
        layers, count, heads, _, size = memory.shape
        empty = tf.zeros([layers, count, heads, slots, size], memory.dtype)
        return empty, empty

    def written(
        self, caches: tuple[Tensor, Tensor], new: Sequence[Tensor], first: int
    ) -> tuple[Tensor, Tensor]:
        """Write the slots of one position, in all layers at once."""
        key, value = (
            updated(cache_LBHMD, first, new_LBHKD)
            for cache_LBHMD, new_LBHKD in zip(caches, new, strict=True)
        )
        return key, value


def updated(cache_LBHMD: Tensor, first: int, new_LBHKD: Tensor) -> Tensor:
    """Replace the slots from `first` on."""
    begin, end = [0, 0, 0, first, 0], [0, 0, 0, first + new_LBHKD.shape[3], 0]
    return tf.raw_ops.TensorStridedSliceUpdate(
        input=cache_LBHMD,
        begin=begin,
        end=end,
        strides=[1] * 5,
        value=new_LBHKD,
        begin_mask=0b10111,
        end_mask=0b10111,
    )


def compiled(module: Any, signature: list[Any]) -> Any:
    """Trace a network once, for all sizes of its dynamic dimensions."""
    return tf.function(module, input_signature=signature, autograph=False)


def signatures(shape: Shape, beam: int) -> tuple[list[Any], list[Any]]:
    """Describe the inputs of encoder and decoder step."""
    source = tf.TensorSpec([None, None], tf.int64)
    cache = tf.TensorSpec(
        [shape.layers, None, shape.heads, None, shape.width // shape.heads], tf.float32
    )
    own = [
        tf.TensorSpec([None, beam], tf.int64),
        tf.TensorSpec([1], tf.int64),
        tf.TensorSpec([None, beam, None], tf.float32),
    ]
    return [source], [*own, source, *[cache] * 4]


def translator(model: Transformer, decoding: Decoding) -> Translator[Tensor]:
    """Build a translator that runs the network itself, without an engine."""
    encoder, step = signatures(model.shape, decoding.beam)
    return Translator(
        TensorFlowTensors(),
        compiled(Encoder(model), encoder),
        compiled(DecoderStep(model), step),
        decoding,
    )


def read_weights(shape: Shape, folder: Path) -> Mapping[str, npt.NDArray[np.float32]]:
    """Read weights exported from either framework; RequestError if they do not fit."""
    try:
        found = load_file(folder / WEIGHTS)
    except (OSError, SafetensorError) as error:
        raise RequestError(
            f"checkpoint {folder}: {WEIGHTS} does not fit {NAME} ({error})"
        ) from error
    wanted = names(shape)
    odd = sorted(
        name
        for name in wanted.keys() | found.keys()
        if name not in wanted or name not in found or found[name].shape != wanted[name]
    )
    if odd:
        raise RequestError(
            f"checkpoint {folder}: {WEIGHTS} does not fit {NAME} ({', '.join(odd[:3])})"
        )
    return found
