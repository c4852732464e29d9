"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from suite.errors import RequestError
from suite.events import CORPUS_SAMPLES
from suite.rounds import HyperValue
from suite.workload import Run, Scores, StepPreparation
from workloads.common import run_request
from workloads.common.inputs import batches
from workloads.common.inputs.device_copies import load_for_device
from workloads.common.optimisation import collectives, mixed_precision, sharding
from workloads.common.optimisation.disclosed_facts import collect_disclosed_facts
from workloads.common.optimisation.prepared_loss import COMPILE_SETTING
from workloads.common.optimisation.step import Stepper
from workloads.common.optimisation.stepped_training import SteppedTraining
from workloads.common.weights_description import write_weights_description
from workloads.llama import data, survey
from workloads.llama.checkpoint import LLAMA_NAME, LlamaDescription
from workloads.llama.model import LlamaNetwork
from workloads.llama.published.megatron import SequenceSource
from workloads.llama.published.survey import DOCUMENTS, check_training_data
from workloads.llama.recipe import LlamaRecipe
from workloads.llama.shape import LlamaShape
from workloads.llama.weights import export_llama_checkpoint

# Legend: B sequences of a batch, T predicted tokens, V tokens of the vocabulary.

EVALUATION_BATCH: Final = 64
"""Sequences in an evaluation batch; any size gives the same loss but for its rounding."""
MIN_CONTEXT: Final = 128
"""Positions of the exported network: a prompt with an answer that does not end needs more than a
sequence has.
"""
ROW_FILE: Final = "workloads/llama/podium-v1.toml"
"""In the source and in the package: where the settings of the round come from."""
METRIC_SIGNATURE: Final = "mean cross-entropy of the next token, in nats"


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSequences:
    """The sequences of a micro-batch, all with one weight."""

    token_BT: torch.Tensor
    """B T + 1."""
    weight: float = 1.0
    """0 where a rank has no sequence of its own in a step."""


class LlamaTraining(SteppedTraining):
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, LLAMA_NAME)
        self._recipe = LlamaRecipe.build_from_settings(run.settings)
        self._micro_batch = self._recipe.compute_micro_batch(run.world_size)
        self._found = run_request.resolve_data_survey(run, survey.LlamaDataSet)
        context = max(self._recipe.sequence_length, MIN_CONTEXT)
        check_training_data(self._found, context)
        self._shape = self._recipe.build_shape(int(self._found["vocabulary"]), context)
        self._sharded = self._recipe.shard and run.world_size > 1
        self._model = build_seeded_llama(run.seed, self._shape, self._recipe)
        place_llama_network(self._model, run, sharded=self._sharded)
        self._stepper = Stepper(
            run,
            self._model,
            build_llama_optimizer(self._model, self._recipe),
            clip_norm=self._recipe.clip_norm,
            sharded=self._sharded,
        )
        self._schedule = self._recipe.build_schedule()
        self._gathered: Mapping[str, torch.Tensor] | None = None

    def prepare_steps(self) -> Sequence[StepPreparation]:
        """Compile the layers; RequestError if that fails where other ranks hold parts of them."""
        if not self._recipe.compile_layers:
            return []
        done = self._stepper.try_preparation(COMPILE_SETTING, self._compile_layers)
        if done.problem and self._sharded:
            raise RequestError(
                f"{COMPILE_SETTING}: {done.problem}; the ranks hold parts of one network, and none"
                f" can go on without it: --set {COMPILE_SETTING}=false"
            )
        if done.problem:
            for layer in self._model.layers:
                layer._compiled_call_impl = None  # as before `compile`
        self._stepper.network.zero_grad()
        return [done]

    def _compile_layers(self) -> None:
        """Compile the layers for training and for evaluation, on tokens of its own."""
        token_BT = torch.zeros(
            self._micro_batch,
            self._recipe.sequence_length + 1,
            dtype=torch.int64,
            device=self._run.device,
        )
        for layer in self._model.layers:
            layer.compile()
        warm_up = WeightedSequences(token_BT=token_BT)
        self._compute_summed_loss(warm_up).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self._compute_losses(token_BT[:1].expand(EVALUATION_BATCH, -1))

    @cached_property
    def _sequences(self) -> tuple[SequenceSource, SequenceSource]:
        """Open both splits; like everything that opens the data, this runs inside the clock."""
        return survey.open_surveyed_sequences(
            self._run, self._found, self._recipe.sequence_length, self._evaluated_sequences
        )

    @property
    def _epoch_sequences(self) -> int:
        """Sequences between two evaluations; each epoch goes on where the last one ended."""
        return self._row.train_samples or int(self._found[data.TRAIN_SPLIT])

    @property
    def _evaluated_sequences(self) -> int:
        return self._row.eval_samples or int(self._found[data.VALIDATION_SPLIT])

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sequences of an epoch and of an evaluation, the documents of the user's
        corpus, what the metric is, and the precision and parallelism that MLPerf's logs state.
        """
        counted = {
            "train_samples": self._epoch_sequences,
            "eval_samples": self._evaluated_sequences,
        }
        if DOCUMENTS in self._found:
            counted[CORPUS_SAMPLES] = int(self._found[DOCUMENTS])
        disclosed = collect_disclosed_facts(self._run, self._micro_batch, ROW_FILE)
        return {**counted, "metric_signature": METRIC_SIGNATURE, **disclosed}

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`."""
        run, recipe = self._run, self._recipe
        steps = batches.plan_epoch_steps(
            self._epoch_sequences,
            recipe.batch_size,
            self._micro_batch,
            run.seed,
            epoch,
            run.rank,
            run.world_size,
        )
        yield from self._stepper.take_planned_steps(
            steps,
            epoch,
            first_step,
            self._schedule,
            lambda planned: (self._load_batch(keys, epoch) for keys in planned),
            self._compute_summed_loss,
        )

    def _load_batch(self, keys: Sequence[batches.SampleKey], epoch: int) -> WeightedSequences:
        """Load the sequences of a micro-batch on the host; padding samples are dropped. A rank that
        has nothing else keeps one, with weight 0: the others wait for its part in their
        collectives.
        """
        first = (epoch - 1) * self._epoch_sequences
        real = [key for key in keys if key.weight > 0]
        places = [first + key.index for key in real or keys[:1]]
        return WeightedSequences(
            token_BT=self._load_tokens(self._sequences[0][places]), weight=float(bool(real))
        )

    def _load_tokens(self, token_BT: data.Tokens) -> torch.Tensor:
        return load_for_device(np.array(token_BT, np.int64), self._device)

    def _compute_summed_loss(self, loaded: WeightedSequences) -> torch.Tensor:
        """Return the weighted mean loss of each sequence, summed over the sequences."""
        token_BT = loaded.token_BT
        with self._build_autocast():
            logit_BTV = self._stepper.network(token_BT[:, :-1])
        loss = functional.cross_entropy(
            logit_BTV.flatten(0, 1).float(), token_BT[:, 1:].flatten(), reduction="sum"
        )
        return loss * (loaded.weight / self._recipe.sequence_length)

    def _build_autocast(self) -> torch.autocast:
        return mixed_precision.build_autocast(
            self._run.device, self._run.precision, keep_casts=not self._sharded
        )

    def evaluate(self) -> Scores:
        """Compute the mean loss over all validation sequences, each rank its share."""
        self._stepper.network.eval()
        validation, run = self._sequences[1], self._run
        found: list[tuple[int, float]] = []
        with torch.no_grad():  # what a sharded model gathers in inference mode cannot be trained
            for keys in batches.plan_even_evaluation_batches(
                len(validation), EVALUATION_BATCH, run.rank, run.world_size
            ):
                places = [key.index for key in keys]
                losses = self._compute_losses(self._load_tokens(validation[places]))
                found += [
                    (key.index, loss)
                    for key, loss in zip(keys, losses, strict=True)
                    if key.weight > 0
                ]
        if self._sharded:
            sharding.release_gathered_weights(self._model)
        losses_in_order = sorted(collectives.gather_from_ranks(found, run.world_size))
        return {"loss": sum(loss for _, loss in losses_in_order) / len(losses_in_order)}

    def _compute_losses(self, token_BT: torch.Tensor) -> list[float]:
        """Return the mean loss of each sequence."""
        token_BT = token_BT.to(self._run.device, non_blocking=True)
        with self._build_autocast():
            logit_BTV = self._model(token_BT[:, :-1])
        loss_BT = functional.cross_entropy(
            logit_BTV.float().transpose(1, 2), token_BT[:, 1:], reduction="none"
        )
        losses: list[float] = loss_BT.double().mean(1).tolist()
        return losses

    def gather_weights(self) -> None:
        """Gather the weights of a sharded network on rank 0; every rank calls this."""
        if self._sharded:
            self._gathered = sharding.gather_whole_weights(self._model, leads=self._run.rank == 0)

    def export(self, folder: Path) -> None:
        """Write the weights as a checkpoint that transformers and vLLM load."""
        tokens = survey.load_run_tokens(self._run)
        weights = self._model.state_dict() if self._gathered is None else self._gathered
        export_llama_checkpoint(weights, self._shape, tokens, folder)
        write_weights_description(
            LlamaDescription(workload=LLAMA_NAME, tokenizer_sha256=self._found["tokenizer_sha256"]),
            folder,
        )


def build_seeded_llama(seed: int, shape: LlamaShape, recipe: LlamaRecipe) -> LlamaNetwork:
    """Build the network on the CPU, with the same initial weights on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaNetwork(shape, recipe.initial_deviation, recompute=recipe.recompute)


def place_llama_network(network: LlamaNetwork, run: Run, *, sharded: bool) -> None:
    """Move a network to the run's device: whole, or this rank's part of it."""
    if sharded:
        sharding.shard_model(network, network.layers, run)
    else:
        network.to(run.device)


def build_llama_optimizer(network: nn.Module, recipe: LlamaRecipe) -> torch.optim.Optimizer:
    """Create AdamW; matrices decay, the weights of norms do not."""
    groups = [
        {
            "params": [each for each in network.parameters() if each.ndim > 1],
            "weight_decay": recipe.weight_decay,
        },
        {
            "params": [each for each in network.parameters() if each.ndim < 2],
            "weight_decay": 0.0,
        },
    ]
    return torch.optim.AdamW(
        groups,
        lr=recipe.base_rate,
        betas=(recipe.beta_1, recipe.beta_2),
        eps=recipe.epsilon,
        fused=True,
    )
