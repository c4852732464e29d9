"""The network of workloads/transformer/model.py in TensorFlow, with the same weight names and
layout, so that both share weight files.

Plain functions of weights, without Keras. Sources are cited in the PyTorch file.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from workloads.transformer.recipe import TransformerShape
from workloads.transformer.subwords import PAD_ID
from workloads.transformer.translation.decoding import HIDDEN_SLOT_LOGIT

# Legend: B sentences, S source and T target positions, W width, H heads, D width of a head, F width
# between the two linear
# layers, V subtokens, N target tokens of a batch, K hypotheses of a sentence, C continuations of a
# hypothesis, L layers,
# P parts (query, key, value), M slots of a cache: slot p K + k holds what hypothesis k wrote at
# position p.
TensorFlowTensor: TypeAlias = Any
"""tf.Tensor; TensorFlow publishes no usable type information."""
TENSORFLOW_LAYER_NORM_EPSILON: Final = 1e-6
TENSORFLOW_MAX_TIMESCALE: Final = 1e4


@dataclass(frozen=True, slots=True)
class SeededDropout:
    """Dropout seeded by (run, step), so that a resumed run drops the same values; each position in
    the network has its own number.
    """

    share: float
    seed: TensorFlowTensor
    place_numbers: Iterator[int]

    def __call__(self, value: TensorFlowTensor) -> TensorFlowTensor:
        """Drop a share of the values, and scale the rest."""
        if not self.share:
            return value
        return tf.nn.experimental.stateless_dropout(
            value, self.share, tf.random.fold_in(self.seed, next(self.place_numbers))
        )


def return_unchanged(value: TensorFlowTensor) -> TensorFlowTensor:
    """Return the value unchanged."""
    return value


def list_weight_shapes(shape: TransformerShape) -> Mapping[str, tuple[int, ...]]:
    """Return all weights' names and shapes, as in PyTorch's state dict."""
    width, inner = shape.width, shape.filter
    norm: Mapping[str, tuple[int, ...]] = {"weight": (width,), "bias": (width,)}
    attention: Mapping[str, tuple[int, ...]] = {
        "qkv.weight": (3 * width, width),
        "out.weight": (width, width),
    }
    source: Mapping[str, tuple[int, ...]] = {
        "query.weight": (width, width),
        "memory.weight": (2 * width, width),
        "out.weight": (width, width),
    }
    filter_: Mapping[str, tuple[int, ...]] = {
        "inner.weight": (inner, width),
        "inner.bias": (inner,),
        "outer.weight": (width, inner),
        "outer.bias": (width,),
    }
    encoder: Mapping[str, Mapping[str, tuple[int, ...]]] = {
        "attention": attention,
        "filter": filter_,
        "attention_norm": norm,
        "filter_norm": norm,
    }
    decoder: Mapping[str, Mapping[str, tuple[int, ...]]] = {
        **encoder,
        "source": source,
        "source_norm": norm,
    }
    sides: dict[str, Mapping[str, Mapping[str, tuple[int, ...]]]] = {
        "encoder": encoder,
        "decoder": decoder,
    }
    layers = {
        f"{side}.{number}.{part}": parts
        for side in sides
        for number in range(shape.layers)
        for part, parts in sides[side].items()
    }
    layers |= {"encoder_norm": norm, "decoder_norm": norm}
    named = {
        f"{layer}.{name}": size for layer, parts in layers.items() for name, size in parts.items()
    }
    return {"embedding": (shape.vocabulary, width), **named}


def generate_initial_weights(
    shape: TransformerShape, seed: int
) -> dict[str, npt.NDArray[np.float32]]:
    """Create initial weights: Glorot for matrices (query, key and value separately), 1 and 0 for
    the rest.
    """
    rng, found = np.random.default_rng(seed), {}
    for name, size in list_weight_shapes(shape).items():
        if name == "embedding":
            found[name] = rng.normal(0, shape.width**-0.5, size).astype(np.float32)
        elif len(size) == 1:
            found[name] = np.full(size, float(name.endswith("norm.weight")), np.float32)
        else:
            rows = shape.filter if name.endswith("inner.weight") else shape.width
            found[name] = rng.uniform(-1, 1, size).astype(np.float32) * np.float32(
                (6 / (rows + size[1])) ** 0.5
            )
    return found


def encode_tensorflow_positions(position_T: TensorFlowTensor, width: int) -> TensorFlowTensor:
    """Return the position encoding: sines, then cosines."""
    waves = width // 2
    rate_X = np.exp(
        np.arange(waves, dtype=np.float32)
        * np.float32(-np.log(TENSORFLOW_MAX_TIMESCALE) / (waves - 1))
    )
    angle_TX = tf.cast(position_T, tf.float32)[..., None] * rate_X
    return tf.concat([tf.sin(angle_TX), tf.cos(angle_TX)], axis=-1)


def build_tensorflow_mask(hide: TensorFlowTensor) -> TensorFlowTensor:
    """Turn a boolean mask (True: hidden) into an additive mask for attention logits."""
    return tf.where(hide, HIDDEN_SLOT_LOGIT, np.float32(0))


class TensorFlowTransformer(tf.Module):  # type: ignore[misc]  # untyped
    """Encoder and decoder; one matrix serves source and target embeddings and the output layer."""

    def __init__(
        self, shape: TransformerShape, weights: Mapping[str, npt.NDArray[np.float32]]
    ) -> None:
        super().__init__()
        self.shape = shape
        self.weights = {
            name: tf.Variable(weights[name], name=name.replace(".", "_"))
            for name in list_weight_shapes(shape)
        }

    def compute_embeddings(
        self, token_BT: TensorFlowTensor, position_T: TensorFlowTensor
    ) -> TensorFlowTensor:
        """Embed tokens; the padding token is embedded as its position only."""
        scale_BT1 = tf.cast(token_BT != PAD_ID, tf.float32)[..., None] * self.shape.width**0.5
        return tf.gather(
            self.weights["embedding"], token_BT
        ) * scale_BT1 + encode_tensorflow_positions(position_T, self.shape.width)

    def apply_layer_norm(self, layer: str, value_BTW: TensorFlowTensor) -> TensorFlowTensor:
        """Normalise over the width."""
        mean, variance = tf.nn.moments(value_BTW, axes=[-1], keepdims=True)
        scaled = (value_BTW - mean) * tf.math.rsqrt(variance + TENSORFLOW_LAYER_NORM_EPSILON)
        return scaled * self.weights[f"{layer}.weight"] + self.weights[f"{layer}.bias"]

    def split_projection(self, product: str, input_BTW: TensorFlowTensor) -> list[TensorFlowTensor]:
        """Split a joint projection into queries, keys or values, each B H T D."""
        weight, width, heads, size = (
            self.weights[f"{product}.weight"],
            self.shape.width,
            self.shape.heads,
            tf.shape(input_BTW),
        )
        count = weight.shape[0] // width
        shaped = tf.reshape(
            multiply_by_transpose(input_BTW, weight),
            [size[0], size[1], count, heads, width // heads],
        )
        return list(tf.unstack(tf.transpose(shaped, [2, 0, 3, 1, 4]), num=count))

    def compute_attention(
        self,
        layer: str,
        query_BHTD: TensorFlowTensor,
        key_BHSD: TensorFlowTensor,
        value_BHSD: TensorFlowTensor,
        mask_BxTS: TensorFlowTensor,
        drop: Any = return_unchanged,
    ) -> TensorFlowTensor:
        """Compute attention, and merge the heads to B T W."""
        scaled_BHTD = query_BHTD * (self.shape.width // self.shape.heads) ** -0.5
        share_BHTS = drop(
            tf.nn.softmax(tf.matmul(scaled_BHTD, key_BHSD, transpose_b=True) + mask_BxTS)
        )
        attended_BTHD = tf.transpose(tf.matmul(share_BHTS, value_BHSD), [0, 2, 1, 3])
        size = tf.shape(attended_BTHD)
        return multiply_by_transpose(
            tf.reshape(attended_BTHD, [size[0], size[1], self.shape.width]),
            self.weights[f"{layer}.out.weight"],
        )

    def apply_feed_forward(
        self, layer: str, input_BTW: TensorFlowTensor, drop: Any = return_unchanged
    ) -> TensorFlowTensor:
        """Apply two linear layers with a ReLU between them."""
        inner, outer = (
            (self.weights[f"{layer}.{name}.weight"], self.weights[f"{layer}.{name}.bias"])
            for name in ("inner", "outer")
        )
        inner_BTF = drop(tf.nn.relu(multiply_by_transpose(input_BTW, inner[0]) + inner[1]))
        return multiply_by_transpose(inner_BTF, outer[0]) + outer[1]

    def encode_source(
        self, source_BS: TensorFlowTensor, drop: Any = return_unchanged
    ) -> tuple[TensorFlowTensor, TensorFlowTensor]:
        """Return the encoder's output and the source mask."""
        mask_B11S = build_tensorflow_mask(source_BS == PAD_ID)[:, None, None]
        state_BSW = drop(self.compute_embeddings(source_BS, tf.range(tf.shape(source_BS)[1])))
        for number in range(self.shape.layers):
            layer = f"encoder.{number}"
            query, key, value = self.split_projection(
                f"{layer}.attention.qkv",
                self.apply_layer_norm(f"{layer}.attention_norm", state_BSW),
            )
            state_BSW += drop(
                self.compute_attention(f"{layer}.attention", query, key, value, mask_B11S, drop)
            )
            state_BSW += drop(
                self.apply_feed_forward(
                    f"{layer}.filter",
                    self.apply_layer_norm(f"{layer}.filter_norm", state_BSW),
                    drop,
                )
            )
        return self.apply_layer_norm("encoder_norm", state_BSW), mask_B11S

    def run_after_self_attention(
        self,
        layer: str,
        state_BTW: TensorFlowTensor,
        key_BHSD: TensorFlowTensor,
        value_BHSD: TensorFlowTensor,
        mask_B11S: TensorFlowTensor,
        drop: Any = return_unchanged,
    ) -> TensorFlowTensor:
        """Run the layer after self-attention; shared by training and decoding."""
        (query,) = self.split_projection(
            f"{layer}.source.query", self.apply_layer_norm(f"{layer}.source_norm", state_BTW)
        )
        state_BTW += drop(
            self.compute_attention(f"{layer}.source", query, key_BHSD, value_BHSD, mask_B11S, drop)
        )
        return state_BTW + drop(
            self.apply_feed_forward(
                f"{layer}.filter", self.apply_layer_norm(f"{layer}.filter_norm", state_BTW), drop
            )
        )

    def compute_logits(
        self, source_BS: TensorFlowTensor, target_BT: TensorFlowTensor, drop: Any = return_unchanged
    ) -> TensorFlowTensor:
        """Return the logits, N x V, of all target tokens except padding, each from the source and
        the preceding tokens.
        """
        memory_BSW, mask_B11S = self.encode_source(source_BS, drop)
        before_BT = tf.pad(target_BT, [[0, 0], [1, 0]], constant_values=PAD_ID)[:, :-1]
        position_T = tf.range(tf.shape(target_BT)[1])
        later_TT = build_tensorflow_mask(position_T[None, :] > position_T[:, None])
        state_BTW = drop(self.compute_embeddings(before_BT, position_T))
        for number in range(self.shape.layers):
            layer = f"decoder.{number}"
            query, key, value = self.split_projection(
                f"{layer}.attention.qkv",
                self.apply_layer_norm(f"{layer}.attention_norm", state_BTW),
            )
            state_BTW += drop(
                self.compute_attention(f"{layer}.attention", query, key, value, later_TT, drop)
            )
            key, value = self.split_projection(f"{layer}.source.memory", memory_BSW)
            state_BTW = self.run_after_self_attention(layer, state_BTW, key, value, mask_B11S, drop)
        state_NW = tf.boolean_mask(
            self.apply_layer_norm("decoder_norm", state_BTW), target_BT != PAD_ID
        )
        return multiply_by_transpose(state_NW, self.weights["embedding"])


def multiply_by_transpose(
    input_BTW: TensorFlowTensor, weight_XW: TensorFlowTensor
) -> TensorFlowTensor:
    """Multiply by the transpose of a matrix, as PyTorch stores it, over all positions at once."""
    width, out = weight_XW.shape[1], weight_XW.shape[0]
    flat = tf.matmul(tf.reshape(input_BTW, [-1, width]), weight_XW, transpose_b=True)
    return tf.reshape(flat, tf.concat([tf.shape(input_BTW)[:-1], [out]], axis=0))


class TensorFlowServingEncoder(tf.Module):  # type: ignore[misc]  # untyped
    """The network that runs once per sentence: the encoder, and the keys and values that each
    decoder layer takes from it.
    """

    def __init__(self, transformer: TensorFlowTransformer) -> None:
        super().__init__()
        self.transformer = transformer

    def __call__(self, source_BS: TensorFlowTensor) -> tuple[TensorFlowTensor, TensorFlowTensor]:
        """Return the keys and the values, each L B H S D."""
        memory_BSW, _ = self.transformer.encode_source(source_BS)
        layers = range(self.transformer.shape.layers)
        parts = [
            self.transformer.split_projection(f"decoder.{number}.source.memory", memory_BSW)
            for number in layers
        ]
        return tf.stack([part[0] for part in parts]), tf.stack([part[1] for part in parts])


class TensorFlowServingDecoderStep(tf.Module):  # type: ignore[misc]  # untyped
    """The network that runs once per position; see workloads/transformer/model.py,
    TransformerServingDecoderStep.
    """

    def __init__(self, transformer: TensorFlowTransformer) -> None:
        super().__init__()
        self.transformer = transformer

    def __call__(
        self,
        token_BK: TensorFlowTensor,
        position_1: TensorFlowTensor,
        mask_BKM: TensorFlowTensor,
        *rest: TensorFlowTensor,
    ) -> tuple[TensorFlowTensor, ...]:
        """Return the log-probabilities and the tokens of the best 2 K continuations, and this
        position's keys and values, L B H K D.

        `rest`: source B S, the memory's keys and values L B H S D, the caches of keys and values L
        B H M D.
        """
        logit_BKV, key_LBHKD, value_LBHKD = self.compute_logits(
            token_BK, position_1, mask_BKM, *rest
        )
        logit_BKC, token_BKC = tf.math.top_k(
            logit_BKV, min(2 * token_BK.shape[1], self.transformer.shape.vocabulary)
        )
        score_BKC = logit_BKC - tf.reduce_logsumexp(logit_BKV, axis=-1, keepdims=True)
        return score_BKC, tf.cast(token_BKC, tf.int64), key_LBHKD, value_LBHKD

    def compute_logits(
        self,
        token_BK: TensorFlowTensor,
        position_1: TensorFlowTensor,
        mask_BKM: TensorFlowTensor,
        *rest: TensorFlowTensor,
    ) -> tuple[TensorFlowTensor, TensorFlowTensor, TensorFlowTensor]:
        """Return the logits, B K V, and this position's keys and values."""
        source_BS, memory_key_LBHSD, memory_value_LBHSD, key_LBHMD, value_LBHMD = rest
        model, count = self.transformer, token_BK.shape[1]
        first = tf.cast(position_1[0], tf.int32) * count
        mask_B11S, mask_B1KM = (
            build_tensorflow_mask(source_BS == PAD_ID)[:, None, None],
            mask_BKM[:, None, :, : first + count],
        )
        state_BKW = model.compute_embeddings(token_BK, position_1)
        written: list[list[TensorFlowTensor]] = []
        for number in range(model.shape.layers):
            layer = f"decoder.{number}"
            query, *new = model.split_projection(
                f"{layer}.attention.qkv",
                model.apply_layer_norm(f"{layer}.attention_norm", state_BKW),
            )
            key, value = (
                tf.concat([cache[number, :, :, :first], one], axis=2)
                for cache, one in zip((key_LBHMD, value_LBHMD), new, strict=True)
            )
            state_BKW += model.compute_attention(f"{layer}.attention", query, key, value, mask_B1KM)
            state_BKW = model.run_after_self_attention(
                layer, state_BKW, memory_key_LBHSD[number], memory_value_LBHSD[number], mask_B11S
            )
            written.append(new)
        key_LBHKD, value_LBHKD = (tf.stack([new[kind] for new in written]) for kind in range(2))
        return (
            multiply_by_transpose(
                model.apply_layer_norm("decoder_norm", state_BKW), model.weights["embedding"]
            ),
            key_LBHKD,
            value_LBHKD,
        )
