"""The system under test: the accuracy set as subtokens, translated batch by batch, and answers as
int32 subtokens. Framework-independent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from suite.engine import Engine, Network, Shape, ShapeProfile
from suite.workload import Predictor, Run
from workloads.common import run_request
from workloads.common.served_samples import LoadedSamples, ServedSamples
from workloads.common.text import encoded
from workloads.common.text.parallel_text import TEXT_TEST_SPLIT
from workloads.common.text.token_answers import pack_token_ids
from workloads.transformer import data, scoring, survey
from workloads.transformer.checkpoint import TRANSFORMER_NAME, read_transformer_description
from workloads.transformer.data import Sentence
from workloads.transformer.recipe import DecodingParameters, TransformerShape
from workloads.transformer.subwords import EOS_ID
from workloads.transformer.translation.decoding import (
    CACHE_GROWTH_POSITIONS,
    RecordedDecoder,
    TensorConverter,
    TransformerTranslator,
)

# Legend: B sentences, S source positions, K hypotheses of a sentence, M slots of a cache, L layers,
# H heads, D width of a head.
EXAMPLE_SOURCE_TOKENS = 8  # tokens of the example sentence given to an engine
TRANSFORMER_TYPICAL_TOKENS = 24  # tokens, likewise


def skip_recording(*parts: Any) -> None:
    """Record nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkParts:
    """What a framework supplies."""

    load_networks: Callable[[Path, TransformerShape, int], Sequence[Network[Any]]]
    """Checkpoint, shape and hypotheses -> encoder and decoder step, with the checkpoint's
    weights.
    """
    tensors: TensorConverter[Any]
    record_steps: Callable[..., RecordedDecoder | None] = skip_recording
    """Encoder, step, the worker's converter, decoding, largest batch and longest source -> the
    steps that the engine recorded; None where it records none.
    """


class TransformerPredictor:
    """One worker's predictor: sample indices in, answers out."""

    def __init__(
        self, translate: TransformerTranslator[Any], sources: LoadedSamples[Sentence], sizes: range
    ) -> None:
        self._translate, self._sources, self._sizes = translate, sources, sizes

    def warm_up(self) -> None:
        """Run one step in every batch size that may occur, so that the framework can prepare each
        shape.
        """
        for size in self._sizes:
            self._translate([np.array([EOS_ID], np.int32)] * size, extra_length=0)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the subtokens of each translation, including its end mark, so that no answer
        is empty.
        """
        return self._translate_to_answers([self._sources[sample] for sample in samples])

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer sentences that came over a network."""
        return self._translate_to_answers([np.frombuffer(payload, "<i4") for payload in payloads])

    def _translate_to_answers(self, sources: Sequence[Sentence]) -> Sequence[bytes]:
        return [pack_token_ids([*ids, EOS_ID]) for ids in self._translate(sources)]


class TransformerSystem(ServedSamples[Sentence]):
    """A checkpoint, an engine and the sentences of the accuracy set."""

    def __init__(
        self, run: Run, checkpoint: Path, engine: Engine[Any], parts: FrameworkParts
    ) -> None:
        self._run, self._parts = run, parts
        folder = encoded.resolve_encoded_folder(
            run, run_request.resolve_data_survey(run, survey.TransformerDataSet)
        )
        self._text = data.load_text_with_vocabulary(run)
        self._corpus = data.read_test_corpus(run, self._text.root)
        self._encoded = data.read_encoded_pairs(folder, TEXT_TEST_SPLIT).sources
        self._decoding = DecodingParameters.build_from_settings(run.settings)
        description = read_transformer_description(
            checkpoint, self._text.vocabulary_sha256, self._text.vocabulary
        )
        networks, plan = (
            parts.load_networks(checkpoint, description.shape, self._decoding.beam),
            run_request.build_engine_plan(run),
        )
        profiles = self._compute_shape_profiles(plan.max_batch, description.shape)
        self._executables = [
            engine.compile(replace(network, shapes=profile), plan)
            for network, profile in zip(networks, profiles, strict=True)
        ]
        row = run_request.require_run_inference_row(run, TRANSFORMER_NAME)
        super().__init__(
            len(self._encoded),
            row.performance_samples,
            lambda samples: map(self._encoded.__getitem__, samples),
        )

    def _compute_shape_profiles(
        self, most: int, shape: TransformerShape
    ) -> tuple[ShapeProfile, ShapeProfile]:
        """Return the shapes of encoder and decoder step: of one sentence of one subtoken, of a
        typical batch, and of the largest batch of the longest sentences.
        """
        longest = max(map(len, self._encoded))
        sizes = (
            (1, 1, 1),
            compute_answer_sizes(
                min(run_request.TYPICAL_BATCH, most),
                min(TRANSFORMER_TYPICAL_TOKENS, longest),
                self._decoding.extra_length,
            ),
            compute_answer_sizes(most, longest, self._decoding.extra_length),
        )
        least, usual, largest = (
            compute_input_shapes(*each, shape, self._decoding.beam) for each in sizes
        )
        return (
            ShapeProfile(minimum=least[0], usual=usual[0], maximum=largest[0]),
            ShapeProfile(minimum=least[1], usual=usual[1], maximum=largest[1]),
        )

    def payload(self, sample: int) -> bytes:
        """Return the subtokens, int32 little-endian."""
        return self._held[sample].astype("<i4", copy=False).tobytes()

    def length(self, sample: int) -> int:
        """Number of source subtokens: translations of similar sources end at about the same
        step.
        """
        return len(self._encoded[sample])

    @property
    def _longest_source(self) -> int:
        return max(map(self.length, range(self.sample_count)))

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        encoder, step = (executable.open() for executable in self._executables)
        tensors = self._parts.tensors.open_worker()
        recorded = self._parts.record_steps(
            encoder, step, tensors, self._decoding, max_batch, self._longest_source
        )
        return TransformerPredictor(
            TransformerTranslator(tensors, encoder, step, self._decoding, recorded),
            self._held,
            run_request.list_warm_up_batch_sizes(self._run, max_batch),
        )

    def truth(self, folder: Path) -> None:
        """Write references and vocabulary."""
        scoring.write_transformer_truth(folder, self._corpus.targets, self._text.words)


def compute_answer_sizes(batch: int, source: int, extra_length: int) -> tuple[int, int, int]:
    """Return a batch's sentences, its source positions, and the steps by which the caches of its
    answers grow.
    """
    return batch, source, max(1, -(-(source + extra_length) // CACHE_GROWTH_POSITIONS))


def compute_input_shapes(
    batch: int, source: int, steps: int, shape: TransformerShape, beam: int
) -> tuple[tuple[Shape, ...], tuple[Shape, ...]]:
    """Return the shapes of the encoder's and of the decoder step's inputs."""
    slots = steps * CACHE_GROWTH_POSITIONS * beam
    memory_LBHSD, cache_LBHMD = (
        (shape.layers, batch, shape.heads, length, shape.width // shape.heads)
        for length in (source, slots)
    )
    own = ((batch, beam), (1,), (batch, beam, slots), (batch, source))
    return ((batch, source),), (*own, memory_LBHSD, memory_LBHSD, cache_LBHMD, cache_LBHMD)


def build_decoder_step_examples(
    source_BS: np.ndarray[Any, Any], shape: TransformerShape, beam: int
) -> tuple[np.ndarray[Any, Any], ...]:
    """Build example inputs of a decoder step: token, position, mask, source, memory and caches."""
    _, shapes = compute_input_shapes(1, EXAMPLE_SOURCE_TOKENS, 1, shape, beam)
    token, position, mask, _, memory, _, cache, _ = shapes
    memory_LBHSD, cache_LBHMD = np.zeros(memory, np.float32), np.zeros(cache, np.float32)
    own = (np.zeros(token, np.int64), np.zeros(position, np.int64), np.zeros(mask, np.float32))
    return (*own, source_BS, memory_LBHSD, memory_LBHSD, cache_LBHMD, cache_LBHMD.copy())


def describe_transformer_networks(
    framework: str,
    encoder: Any,
    step: Any,
    copy_to_device: Callable[[Any], Any],
    shape: TransformerShape,
    beam: int,
) -> tuple[Network[Any], Network[Any]]:
    """Describe encoder and decoder step for an engine; the step reads caches and returns what it
    adds to them.
    """
    sentence, memory, cache = (
        {0: "batch", 1: "source"},
        {1: "batch", 3: "source"},
        {1: "batch", 3: "slots"},
    )
    source_BS = np.full((1, EXAMPLE_SOURCE_TOKENS), EOS_ID)
    examples = build_decoder_step_examples(source_BS, shape, beam)
    first = Network(
        name="encoder",
        module=encoder,
        framework=framework,
        inputs=(copy_to_device(source_BS),),
        input_names=("source",),
        output_names=("memory_key", "memory_value"),
        dimensions=(sentence,),
    )
    second = Network(
        name="decoder-step",
        module=step,
        framework=framework,
        inputs=tuple(copy_to_device(array) for array in examples),
        input_names=(
            "token",
            "position",
            "mask",
            "source",
            "memory_key",
            "memory_value",
            "key",
            "value",
        ),
        output_names=("score", "next_token", "new_key", "new_value"),
        dimensions=(
            {0: "batch"},
            {},
            {0: "batch", 2: "seen"},
            sentence,
            memory,
            memory,
            cache,
            cache,
        ),
    )
    return first, second
