"""The system under test: summaries generated token by token, with continuous batching; answers are
token ids as int32, the end token included.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import torch

from suite.engine import Engine, Precision
from suite.errors import RequestError
from suite.rounds import MAX_NEW_TOKENS_SETTING
from suite.workload import Predictor, Run
from workloads.common import malloc, run_request
from workloads.common.served_samples import LoadedSamples, ServedSamples
from workloads.common.setting_values import require_positive_setting
from workloads.common.text.token_answers import pack_token_ids
from workloads.common.weights_description import read_weights_description
from workloads.llama.cache_room import measure_cache_room
from workloads.llama.checkpoint import (
    LLAMA_NAME,
    LlamaDescription,
    check_tokenizer_hash,
    read_end_tokens,
)
from workloads.llama.generation import LlamaGenerator, generate_answers
from workloads.llama.serving_set import ServingSet, load_serving_set
from workloads.llama.shape import LlamaShape
from workloads.llama.weights import load_llama_checkpoint

GENERATING_ENGINE: Final = "torch"
GENERATION_TYPES: Final[Mapping[Precision, torch.dtype]] = {
    Precision.FP32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.BF16: torch.bfloat16,
}
"""Precision -> type of weights and cache."""
SLOTS_SETTING: Final = "batching.max_batch"


class LlamaPredictor:
    """Answers batches of samples with one generator."""

    def __init__(self, generator: LlamaGenerator, prompts: LoadedSamples[Sequence[int]]) -> None:
        self._generator, self._prompts = generator, prompts

    def warm_up(self) -> None:
        """Warm up the generator."""
        self._generator.warm_up()

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer with the tokens of each summary, in the order of the samples."""
        prompts = [self._prompts[sample] for sample in samples]
        return [pack_token_ids(ids) for ids in generate_answers(self._generator, prompts)]


class LlamaInference(ServedSamples[Sequence[int]]):
    """A checkpoint and the prompts of the serving set (suite's GeneratingInference).

    RequestError for another engine than PyTorch's, a number format that the generator lacks,
    several instances, a checkpoint of another workload, tokenizer or shape, and prompts that its
    network cannot read.
    """

    def __init__(self, run: Run, checkpoint: Path, engine: Engine[Any]) -> None:
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        check_generation_request(run, engine)
        row = run_request.require_run_inference_row(run, LLAMA_NAME)
        self._run, self._set = run, load_serving_set(run)
        prompts = self._set.prompts
        super().__init__(
            len(prompts), row.performance_samples, lambda samples: map(prompts.__getitem__, samples)
        )
        self._new_tokens = require_positive_setting(run.settings, MAX_NEW_TOKENS_SETTING)
        self._slots = require_positive_setting(run.settings, SLOTS_SETTING)
        read_weights_description(checkpoint, LlamaDescription, LLAMA_NAME)
        check_tokenizer_hash(checkpoint, self._set.tokenizer_sha256)
        self._ends = read_end_tokens(checkpoint)
        network = load_llama_checkpoint(checkpoint)
        check_prompts(self._set, network.shape)
        torch.backends.cuda.matmul.allow_tf32 = run.precision is Precision.TF32
        self._network = network.to(run.device)

    def length(self, sample: int) -> int:
        """Tokens of a prompt: those of similar length are read together."""
        return len(self._set.prompts[sample])

    def prompt(self, sample: int) -> Sequence[int]:
        """Return the token ids of a loaded sample's prompt."""
        return self._held[sample]

    def open_generator(self) -> LlamaGenerator:
        """Create a generator with as many slots as `batching.max_batch`, the samples and the memory
        allow.
        """
        return self._build_generator(self._slots)

    def open(self, worker: int, max_batch: int) -> Predictor:
        """Create the predictor of one worker, for callers that answer whole batches."""
        return LlamaPredictor(self._build_generator(max_batch), self._held)

    def truth(self, folder: Path) -> None:
        """Write the reference summaries, and what turns answers into text."""
        self._set.write_truth(folder)

    def _build_generator(self, slots: int) -> LlamaGenerator:
        """Create a generator whose rows hold the longest prompt and its answer; where the network's
        context is shorter, answers are cut there. Slots beyond the samples, and those that the
        free memory does not hold, are left out, with a message.
        """
        used = min(slots, self.sample_count)
        if used < slots:
            click.echo(
                f"llama: the generator has {used} slots, one for each sample;"
                f" {SLOTS_SETTING} asks for {slots}",
                err=True,
            )
        longest = min(
            max(map(len, self._set.prompts)) + self._new_tokens, self._network.shape.context
        )
        dtype = GENERATION_TYPES[self._run.precision]
        fitting = measure_cache_room(self._network, longest, dtype).count_slots(used)
        if fitting < used:
            click.echo(
                f"llama: the free memory holds {fitting} sequences of {longest:,} tokens;"
                f" {SLOTS_SETTING} asks for {slots}",
                err=True,
            )
        return LlamaGenerator(
            self._network,
            slots=fitting,
            longest=longest,
            ends=self._ends,
            max_new_tokens=self._new_tokens,
            dtype=dtype,
        )


def check_generation_request(run: Run, engine: Engine[Any]) -> None:
    """RequestError for what the generator cannot do."""
    if engine.name != GENERATING_ENGINE:
        raise RequestError(
            f"llama: the engine {engine.name} does not generate token by token; allowed:"
            f" {GENERATING_ENGINE}"
        )
    if run.precision not in GENERATION_TYPES:
        raise RequestError(
            f"llama: the generator has no {run.precision}; it has {', '.join(GENERATION_TYPES)}"
        )
    for setting, reason in (
        ("engine.compile", "the generator is not compiled"),
        ("sut.instances", "one process generates all answers"),
    ):
        if run.settings.get(setting):
            raise RequestError(f"llama: {setting} is not supported: {reason}")


def check_prompts(served: ServingSet, shape: LlamaShape) -> None:
    """RequestError for the first prompt that is empty, leaves no room for an answer, or has a token
    that the network does not embed.
    """
    for sample, prompt in enumerate(served.prompts):
        if not 0 < len(prompt) < shape.context:
            raise RequestError(
                f"llama: sample {sample} has a prompt of {len(prompt)} tokens; the checkpoint"
                f" allows 1 to {shape.context - 1}"
            )
        if min(prompt) < 0 or max(prompt) >= shape.vocabulary:
            raise RequestError(
                f"llama: sample {sample} has a token outside 0 to {shape.vocabulary - 1}, which"
                " the checkpoint embeds"
            )
