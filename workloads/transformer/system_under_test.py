"""The system under test: the accuracy set as subtokens, translated batch by batch, and answers as
int32 subtokens. Framework-independent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from suite.engine import Engine, Network
from suite.workload import Predictor, Run
from workloads.common import run_request
from workloads.common.text import encoded
from workloads.common.text.parallel_text import TEST
from workloads.common.text.token_answers import packed
from workloads.transformer import data, scoring, survey
from workloads.transformer.checkpoint import NAME, describe
from workloads.transformer.data import Sentence
from workloads.transformer.recipe import Decoding, Shape
from workloads.transformer.subwords import EOS_ID
from workloads.transformer.translation.decoding import HORIZON, Tensors, Translator

# Legend: B sentences, S source positions, K hypotheses of a sentence, M slots of a cache, L layers,
# H heads, D width of a head.
EXAMPLE_SOURCE = 8  # tokens of the example sentence given to an engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a framework supplies."""

    networks: Callable[[Path, Shape, int], Sequence[Network[Any]]]
    """Checkpoint, shape and hypotheses -> encoder and decoder step, with the checkpoint's
    weights.
    """
    tensors: Tensors[Any]


class TransformerPredictor:
    """One worker's predictor: sample indices in, answers out."""

    def __init__(
        self, translate: Translator[Any], sources: dict[int, Sentence], sizes: range
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
        return self._answer([self._sources[sample] for sample in samples])

    def answer(self, payloads: Sequence[bytes]) -> Sequence[bytes]:
        """Answer sentences that came over a network."""
        return self._answer([np.frombuffer(payload, "<i4") for payload in payloads])

    def _answer(self, sources: Sequence[Sentence]) -> Sequence[bytes]:
        return [packed([*ids, EOS_ID]) for ids in self._translate(sources)]


class System:
    """A checkpoint, an engine and the sentences of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any], parts: Parts) -> None:
        self._row, self._tensors = run_request.inference_row(run, NAME), parts.tensors
        self._run = run
        folder = encoded.prepared(run, run_request.found(run, survey.TransformerText))
        self._text = data.open_text(run)
        self._corpus = data.test_corpus(run, self._text.root)
        self._encoded = data.read(folder, TEST).sources
        self._decoding = Decoding.of(run.settings)
        description = describe(checkpoint, self._text.vocabulary_sha256, self._text.vocabulary)
        networks, plan = (
            parts.networks(checkpoint, description.shape, self._decoding.beam),
            run_request.plan(run),
        )
        self._executables = [engine.compile(network, plan) for network in networks]
        self._sources: dict[int, Sentence] = {}

    @property
    def sample_count(self) -> int:
        """Number of sentences in the accuracy set."""
        return len(self._encoded)

    @property
    def performance_sample_count(self) -> int:
        """The round's sample count, or all samples if there are fewer."""
        return min(self._row.performance_samples, self.sample_count)

    def load(self, samples: Sequence[int]) -> None:
        """Load sentences into memory; tokenisation is not timed, as in GNMT (inference_rules.adoc
        v0.5, Data).
        """
        self._sources |= {sample: self._encoded[sample] for sample in samples}

    def unload(self, samples: Sequence[int]) -> None:
        """Release sentences."""
        for sample in samples:
            self._sources.pop(sample, None)

    def payload(self, sample: int) -> bytes:
        """Return the subtokens, int32 little-endian."""
        return self._sources[sample].astype("<i4", copy=False).tobytes()

    def length(self, sample: int) -> int:
        """Number of source subtokens: translations of similar sources end at about the same
        step.
        """
        return len(self._encoded[sample])

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker."""
        encoder, step = (executable.open() for executable in self._executables)
        return TransformerPredictor(
            Translator(self._tensors, encoder, step, self._decoding),
            self._sources,
            run_request.warm_up_sizes(self._run, max_batch),
        )

    def truth(self, folder: Path) -> None:
        """Write references and vocabulary."""
        scoring.write_truth(folder, self._corpus.targets, self._text.words)

    def close(self) -> None:
        """Release all sentences."""
        self._sources.clear()


def described(
    framework: str, encoder: Any, step: Any, put: Callable[[Any], Any], shape: Shape, beam: int
) -> tuple[Network[Any], Network[Any]]:
    """Describe encoder and decoder step for an engine; the step reads caches and returns what it
    adds to them.
    """
    sentence, memory, cache = (
        {0: "batch", 1: "source"},
        {1: "batch", 3: "source"},
        {1: "batch", 3: "slots"},
    )
    source_BS = np.full((1, EXAMPLE_SOURCE), EOS_ID)
    memory_LBHSD, cache_LBHMD = (
        np.zeros((shape.layers, 1, shape.heads, length, shape.width // shape.heads), np.float32)
        for length in (EXAMPLE_SOURCE, HORIZON * beam)
    )
    own = (
        np.zeros((1, beam), np.int64),
        np.zeros(1, np.int64),
        np.zeros((1, beam, HORIZON * beam), np.float32),
    )
    examples = (*own, source_BS, memory_LBHSD, memory_LBHSD, cache_LBHMD, cache_LBHMD.copy())
    first = Network(
        name="encoder",
        module=encoder,
        framework=framework,
        inputs=(put(source_BS),),
        input_names=("source",),
        output_names=("memory_key", "memory_value"),
        dimensions=(sentence,),
    )
    second = Network(
        name="decoder-step",
        module=step,
        framework=framework,
        inputs=tuple(put(array) for array in examples),
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
