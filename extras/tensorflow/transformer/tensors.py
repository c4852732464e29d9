"""Conversion between arrays and TensorFlow tensors for the search, weight files, and the translator
used during training.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf
from safetensors import SafetensorError
from safetensors.numpy import load_file

from extras.tensorflow.transformer.model import (
    TensorFlowServingDecoderStep,
    TensorFlowServingEncoder,
    TensorFlowTensor,
    TensorFlowTransformer,
    list_weight_shapes,
)
from suite.errors import RequestError
from workloads.common.weights_description import WEIGHTS_FILE
from workloads.transformer.checkpoint import TRANSFORMER_NAME
from workloads.transformer.recipe import DecodingParameters, TransformerShape
from workloads.transformer.translation.beam_search import Floats, Ints
from workloads.transformer.translation.decoding import TransformerTranslator


class TensorFlowConverter:
    """Copies arrays to the device and back."""

    def copy_to_device(self, array: Ints | Floats) -> TensorFlowTensor:
        """Copy an array to the device."""
        return tf.constant(array)

    def open_worker(self) -> "TensorFlowConverter":
        """Return this: workers share nothing that changes."""
        return self

    def enter_inference_mode(self) -> AbstractContextManager[object]:
        """Return a no-op context: TensorFlow records gradients only on request."""
        return nullcontext()

    def copy_to_host(self, tensors: Sequence[TensorFlowTensor]) -> list[npt.NDArray[np.generic]]:
        """Copy tensors back to the host."""
        return [tensor.numpy() for tensor in tensors]

    def build_empty_caches(
        self, memory: TensorFlowTensor, slots: int
    ) -> tuple[TensorFlowTensor, TensorFlowTensor]:
        """Create empty key and value caches for a memory of L B H S D."""
        layers, count, heads, _, size = memory.shape
        empty = tf.zeros([layers, count, heads, slots, size], memory.dtype)
        return empty, empty

    def update_caches(
        self,
        caches: tuple[TensorFlowTensor, TensorFlowTensor],
        new: Sequence[TensorFlowTensor],
        first: int,
    ) -> tuple[TensorFlowTensor, TensorFlowTensor]:
        """Write the slots of one position, in all layers at once."""
        key, value = (
            replace_cache_slots(cache_LBHMD, first, new_LBHKD)
            for cache_LBHMD, new_LBHKD in zip(caches, new, strict=True)
        )
        return key, value


def replace_cache_slots(
    cache_LBHMD: TensorFlowTensor, first: int, new_LBHKD: TensorFlowTensor
) -> TensorFlowTensor:
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


def trace_network(module: Any, signature: list[Any]) -> Any:
    """Trace a network once, for all sizes of its dynamic dimensions."""
    return tf.function(module, input_signature=signature, autograph=False)


def build_input_signatures(shape: TransformerShape, beam: int) -> tuple[list[Any], list[Any]]:
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


def build_tensorflow_translator(
    model: TensorFlowTransformer, decoding: DecodingParameters
) -> TransformerTranslator[TensorFlowTensor]:
    """Build a translator that runs the network itself, without an engine."""
    encoder, step = build_input_signatures(model.shape, decoding.beam)
    return TransformerTranslator(
        TensorFlowConverter(),
        trace_network(TensorFlowServingEncoder(model), encoder),
        trace_network(TensorFlowServingDecoderStep(model), step),
        decoding,
    )


def read_transformer_weights(
    shape: TransformerShape, folder: Path
) -> Mapping[str, npt.NDArray[np.float32]]:
    """Read weights exported from either framework; RequestError if they do not fit."""
    try:
        found = load_file(folder / WEIGHTS_FILE)
    except (OSError, SafetensorError) as error:
        raise RequestError(
            f"checkpoint {folder}: {WEIGHTS_FILE} does not fit {TRANSFORMER_NAME} ({error})"
        ) from error
    wanted = list_weight_shapes(shape)
    mismatched = sorted(
        name
        for name in wanted.keys() | found.keys()
        if name not in wanted or name not in found or found[name].shape != wanted[name]
    )
    if mismatched:
        raise RequestError(
            f"checkpoint {folder}: {WEIGHTS_FILE} does not fit {TRANSFORMER_NAME}"
            f" ({', '.join(mismatched[:3])})"
        )
    return found
