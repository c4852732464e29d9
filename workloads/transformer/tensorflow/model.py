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

from workloads.transformer.recipe import Shape
from workloads.transformer.subwords import PAD_ID
from workloads.transformer.translation.decoding import HIDDEN

# Legend: B sentences, S source and T target positions, W width, H heads, D width of a head, F width
# between the two linear
# layers, V subtokens, N target tokens of a batch, K hypotheses of a sentence, C continuations of a
# hypothesis, L layers,
# P parts (query, key, value), M slots of a cache: slot p K + k holds what hypothesis k wrote at
# position p.
Tensor: TypeAlias = Any
"""tf.Tensor; TensorFlow publishes no usable type information."""
LAYER_NORM_EPSILON: Final = 1e-6
LONGEST_WAVE: Final = 1e4


@dataclass(frozen=True, slots=True)
class Dropout:
    """Dropout seeded by (run, step), so that a resumed run drops the same values; each place in the
    network has its own number.
    """

    share: float
    seed: Tensor
    place: Iterator[int]

    def __call__(self, value: Tensor) -> Tensor:
        """Drop a share of the values, and scale the rest."""
        if not self.share:
            return value
        return tf.nn.experimental.stateless_dropout(
            value, self.share, tf.random.fold_in(self.seed, next(self.place))
        )


def kept(value: Tensor) -> Tensor:
    """Return the value unchanged."""
    return value


def names(shape: Shape) -> Mapping[str, tuple[int, ...]]:
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


def start(shape: Shape, seed: int) -> dict[str, npt.NDArray[np.float32]]:
    """Create initial weights: Glorot for matrices (query, key and value separately), 1 and 0 for
    the rest.
    """
    rng, found = np.random.default_rng(seed), {}
    for name, size in names(shape).items():
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


def signal(position_T: Tensor, width: int) -> Tensor:
    """Return the position encoding: sines, then cosines."""
    waves = width // 2
    rate_X = np.exp(
        np.arange(waves, dtype=np.float32) * np.float32(-np.log(LONGEST_WAVE) / (waves - 1))
    )
    angle_TX = tf.cast(position_T, tf.float32)[..., None] * rate_X
    return tf.concat([tf.sin(angle_TX), tf.cos(angle_TX)], axis=-1)


def hidden(hide: Tensor) -> Tensor:
    """Turn a boolean mask (True: hidden) into an additive mask for attention logits."""
    return tf.where(hide, HIDDEN, np.float32(0))


class Transformer(tf.Module):  # type: ignore[misc]  # untyped
    """Encoder and decoder; one matrix serves source and target embeddings and the output layer."""

    def __init__(self, shape: Shape, weights: Mapping[str, npt.NDArray[np.float32]]) -> None:
        super().__init__()
        self.shape = shape
        self.weights = {
            name: tf.Variable(weights[name], name=name.replace(".", "_")) for name in names(shape)
        }

    def embed(self, token_BT: Tensor, position_T: Tensor) -> Tensor:
        """Embed tokens; the padding token is embedded as its position only."""
        scale_BT1 = tf.cast(token_BT != PAD_ID, tf.float32)[..., None] * self.shape.width**0.5
        return tf.gather(self.weights["embedding"], token_BT) * scale_BT1 + signal(
            position_T, self.shape.width
        )

    def norm(self, layer: str, value_BTW: Tensor) -> Tensor:
        """Normalise over the width."""
        mean, variance = tf.nn.moments(value_BTW, axes=[-1], keepdims=True)
        scaled = (value_BTW - mean) * tf.math.rsqrt(variance + LAYER_NORM_EPSILON)
        return scaled * self.weights[f"{layer}.weight"] + self.weights[f"{layer}.bias"]

    def parts(self, product: str, input_BTW: Tensor) -> list[Tensor]:
        """Split a joint projection into queries, keys or values, each B H T D."""
        weight, width, heads, size = (
            self.weights[f"{product}.weight"],
            self.shape.width,
            self.shape.heads,
            tf.shape(input_BTW),
        )
        count = weight.shape[0] // width
        shaped = tf.reshape(
            linear(input_BTW, weight), [size[0], size[1], count, heads, width // heads]
        )
        return list(tf.unstack(tf.transpose(shaped, [2, 0, 3, 1, 4]), num=count))

    def joined(
        self,
        layer: str,
        query_BHTD: Tensor,
        key_BHSD: Tensor,
        value_BHSD: Tensor,
        mask_BxTS: Tensor,
        drop: Any = kept,
    ) -> Tensor:
        """Compute attention, and merge the heads to B T W."""
        scaled_BHTD = query_BHTD * (self.shape.width // self.shape.heads) ** -0.5
        share_BHTS = drop(
            tf.nn.softmax(tf.matmul(scaled_BHTD, key_BHSD, transpose_b=True) + mask_BxTS)
        )
        seen_BTHD = tf.transpose(tf.matmul(share_BHTS, value_BHSD), [0, 2, 1, 3])
        size = tf.shape(seen_BTHD)
        return linear(
            tf.reshape(seen_BTHD, [size[0], size[1], self.shape.width]),
            self.weights[f"{layer}.out.weight"],
        )

    def filtered(self, layer: str, input_BTW: Tensor, drop: Any = kept) -> Tensor:
        """Apply two linear layers with a ReLU between them."""
        inner, outer = (
            (self.weights[f"{layer}.{name}.weight"], self.weights[f"{layer}.{name}.bias"])
            for name in ("inner", "outer")
        )
        inner_BTF = drop(tf.nn.relu(linear(input_BTW, inner[0]) + inner[1]))
        return linear(inner_BTF, outer[0]) + outer[1]

    def encode(self, source_BS: Tensor, drop: Any = kept) -> tuple[Tensor, Tensor]:
        """Return the encoder's output and the source mask."""
        mask_B11S = hidden(source_BS == PAD_ID)[:, None, None]
        state_BSW = drop(self.embed(source_BS, tf.range(tf.shape(source_BS)[1])))
        for number in range(self.shape.layers):
            layer = f"encoder.{number}"
            query, key, value = self.parts(
                f"{layer}.attention.qkv", self.norm(f"{layer}.attention_norm", state_BSW)
            )
            state_BSW += drop(self.joined(f"{layer}.attention", query, key, value, mask_B11S, drop))
            state_BSW += drop(
                self.filtered(f"{layer}.filter", self.norm(f"{layer}.filter_norm", state_BSW), drop)
            )
        return self.norm("encoder_norm", state_BSW), mask_B11S

    def rest(
        self,
        layer: str,
        state_BTW: Tensor,
        key_BHSD: Tensor,
        value_BHSD: Tensor,
        mask_B11S: Tensor,
        drop: Any = kept,
    ) -> Tensor:
        """Run the layer after self-attention; shared by training and decoding."""
        (query,) = self.parts(f"{layer}.source.query", self.norm(f"{layer}.source_norm", state_BTW))
        state_BTW += drop(
            self.joined(f"{layer}.source", query, key_BHSD, value_BHSD, mask_B11S, drop)
        )
        return state_BTW + drop(
            self.filtered(f"{layer}.filter", self.norm(f"{layer}.filter_norm", state_BTW), drop)
        )

    def logits(self, source_BS: Tensor, target_BT: Tensor, drop: Any = kept) -> Tensor:
        """Return the logits, N x V, of all target tokens except padding, each from the source and
        the preceding tokens.
        """
        memory_BSW, mask_B11S = self.encode(source_BS, drop)
        before_BT = tf.pad(target_BT, [[0, 0], [1, 0]], constant_values=PAD_ID)[:, :-1]
        place_T = tf.range(tf.shape(target_BT)[1])
        later_TT = hidden(place_T[None, :] > place_T[:, None])
        state_BTW = drop(self.embed(before_BT, place_T))
        for number in range(self.shape.layers):
            layer = f"decoder.{number}"
            query, key, value = self.parts(
                f"{layer}.attention.qkv", self.norm(f"{layer}.attention_norm", state_BTW)
            )
            state_BTW += drop(self.joined(f"{layer}.attention", query, key, value, later_TT, drop))
            key, value = self.parts(f"{layer}.source.memory", memory_BSW)
            state_BTW = self.rest(layer, state_BTW, key, value, mask_B11S, drop)
        state_NW = tf.boolean_mask(self.norm("decoder_norm", state_BTW), target_BT != PAD_ID)
        return linear(state_NW, self.weights["embedding"])


def linear(input_BTW: Tensor, weight_XW: Tensor) -> Tensor:
    """Multiply by the transpose of a matrix, as PyTorch stores it, over all positions at once."""
    width, out = weight_XW.shape[1], weight_XW.shape[0]
    flat = tf.matmul(tf.reshape(input_BTW, [-1, width]), weight_XW, transpose_b=True)
    return tf.reshape(flat, tf.concat([tf.shape(input_BTW)[:-1], [out]], axis=0))


class Encoder(tf.Module):  # type: ignore[misc]  # untyped
    """The network that runs once per sentence: the encoder, and the keys and values that each
    decoder layer takes from it.
    """

    def __init__(self, transformer: Transformer) -> None:
        super().__init__()
        self.transformer = transformer

    def __call__(self, source_BS: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and the values, each L B H S D."""
        memory_BSW, _ = self.transformer.encode(source_BS)
        layers = range(self.transformer.shape.layers)
        parts = [
            self.transformer.parts(f"decoder.{number}.source.memory", memory_BSW)
            for number in layers
        ]
        return tf.stack([part[0] for part in parts]), tf.stack([part[1] for part in parts])


class DecoderStep(tf.Module):  # type: ignore[misc]  # untyped
    """The network that runs once per position; see workloads/transformer/model.py, DecoderStep."""

    def __init__(self, transformer: Transformer) -> None:
        super().__init__()
        self.transformer = transformer

    def __call__(
        self, token_BK: Tensor, position_1: Tensor, mask_BKM: Tensor, *rest: Tensor
    ) -> tuple[Tensor, ...]:
        """Return the log-probabilities and the tokens of the best 2 K continuations, and this
        position's keys and values, L B H K D.

        `rest`: source B S, the memory's keys and values L B H S D, the caches of keys and values L
        B H M D.
        """
        logit_BKV, key_LBHKD, value_LBHKD = self.logits(token_BK, position_1, mask_BKM, *rest)
        logit_BKC, token_BKC = tf.math.top_k(
            logit_BKV, min(2 * token_BK.shape[1], self.transformer.shape.vocabulary)
        )
        score_BKC = logit_BKC - tf.reduce_logsumexp(logit_BKV, axis=-1, keepdims=True)
        return score_BKC, tf.cast(token_BKC, tf.int64), key_LBHKD, value_LBHKD

    def logits(
        self, token_BK: Tensor, position_1: Tensor, mask_BKM: Tensor, *rest: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits, B K V, and this position's keys and values."""
        source_BS, memory_key_LBHSD, memory_value_LBHSD, key_LBHMD, value_LBHMD = rest
        model, count = self.transformer, token_BK.shape[1]
        first = tf.cast(position_1[0], tf.int32) * count
        mask_B11S, mask_B1KM = (
            hidden(source_BS == PAD_ID)[:, None, None],
            mask_BKM[:, None, :, : first + count],
        )
        state_BKW = model.embed(token_BK, position_1)
        written: list[list[Tensor]] = []
        for number in range(model.shape.layers):
            layer = f"decoder.{number}"
            query, *new = model.parts(
                f"{layer}.attention.qkv", model.norm(f"{layer}.attention_norm", state_BKW)
            )
            key, value = (
                tf.concat([cache[number, :, :, :first], one], axis=2)
                for cache, one in zip((key_LBHMD, value_LBHMD), new, strict=True)
            )
            state_BKW += model.joined(f"{layer}.attention", query, key, value, mask_B1KM)
            state_BKW = model.rest(
                layer, state_BKW, memory_key_LBHSD[number], memory_value_LBHSD[number], mask_B11S
            )
            written.append(new)
        key_LBHKD, value_LBHKD = (tf.stack([new[kind] for new in written]) for kind in range(2))
        return (
            linear(model.norm("decoder_norm", state_BKW), model.weights["embedding"]),
            key_LBHKD,
            value_LBHKD,
        )
