"""The system under test: the accuracy set as subtokens, translated batch by batch, and answers as int32 subtokens. No framework of its own."""

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

# Legend: B sentences, S source positions, K hypotheses of a sentence, M slots of a cache, L layers, H heads, D width of a head.
EXAMPLE_SOURCE = 8  # tokens of the sentence that an engine is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a framework brings."""

    networks: Callable[[Path, Shape, int], Sequence[Network[Any]]]
    """Checkpoint, shape and hypotheses -> encoder and decoder step, with the checkpoint's weights."""
    tensors: Tensors[Any]


class TransformerPredictor:
    """One worker's way from sample numbers to answers."""

    def __init__(self, translate: Translator[Any], sources: dict[int, Sentence], sizes: range) -> None:
        self._translate, self._sources, self._sizes = translate, sources, sizes

    def warm_up(self) -> None:
        """Take a step in every batch size that may come, so that what a framework prepares for a shape is prepared."""
        for size in self._sizes:
            self._translate([np.array([EOS_ID], np.int32)] * size, extra_length=0)

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the subtokens of each translation, its end mark behind it: no answer is empty."""
        return [packed([*ids, EOS_ID]) for ids in self._translate([self._sources[sample] for sample in samples])]


class System:
    """A checkpoint, an engine and the sentences of the accuracy set."""

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any], parts: Parts) -> None:
        self._row, self._tensors = run_request.inference_row(run, NAME), parts.tensors
        self._sizes = run_request.warm_up_sizes(run)
        folder = encoded.prepared(run, run_request.found(run, survey.TransformerText))
        self._text = data.open_text(run)
        self._corpus = data.test_corpus(run, self._text.root)
        self._encoded = data.read(folder, TEST).sources
        self._decoding = Decoding.of(run.settings)
        description = describe(checkpoint, self._text.vocabulary_sha256, self._text.vocabulary)
        networks, plan = parts.networks(checkpoint, description.shape, self._decoding.beam), run_request.plan(run)
        self._executables = [engine.compile(network, plan) for network in networks]
        self._sources: dict[int, Sentence] = {}

    @property
    def sample_count(self) -> int:
        """Sentences of the accuracy set."""
        return len(self._encoded)

    @property
    def performance_sample_count(self) -> int:
        """The round's number, or all where there are fewer."""
        return min(self._row.performance_samples, self.sample_count)

    def load(self, samples: Sequence[int]) -> None:
        """Bring sentences into memory; tokenising is not timed, as in GNMT (inference_rules.adoc v0.5, Data)."""
        self._sources |= {sample: self._encoded[sample] for sample in samples}

    def unload(self, samples: Sequence[int]) -> None:
        """Forget sentences."""
        for sample in samples:
            self._sources.pop(sample, None)

    def length(self, sample: int) -> int:
        """Subtokens of the source: translations of like sources end at about the same step."""
        return len(self._encoded[sample])

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Make the predictor of one worker."""
        encoder, step = (executable.open() for executable in self._executables)
        return TransformerPredictor(Translator(self._tensors, encoder, step, self._decoding), self._sources, self._sizes)

    def truth(self, folder: Path) -> None:
        """Write references and vocabulary."""
        scoring.write_truth(folder, self._corpus.targets, self._text.words)

    def close(self) -> None:
        """Forget all sentences."""
        self._sources.clear()


def described(framework: str, encoder: Any, step: Any, put: Callable[[Any], Any], shape: Shape, beam: int) -> tuple[Network[Any], Network[Any]]:
    """Describe encoder and decoder step to an engine; the step reads caches and gives back what it adds to them."""
    sentence, memory, cache = {0: "batch", 1: "source"}, {1: "batch", 3: "source"}, {1: "batch", 3: "slots"}
    source_BS = np.full((1, EXAMPLE_SOURCE), EOS_ID)
    memory_LBHSD, cache_LBHMD = (
        np.zeros((shape.layers, 1, shape.heads, length, shape.width // shape.heads), np.float32) for length in (EXAMPLE_SOURCE, HORIZON * beam)
    )
    own = (np.zeros((1, beam), np.int64), np.zeros(1, np.int64), np.zeros((1, beam, HORIZON * beam), np.float32))
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
        input_names=("token", "position", "mask", "source", "memory_key", "memory_value", "key", "value"),
        output_names=("score", "next_token", "new_key", "new_value"),
        dimensions=({0: "batch"}, {}, {0: "batch", 2: "seen"}, sentence, memory, memory, cache, cache),
    )
    return first, second
