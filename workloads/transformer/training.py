"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch.nn import functional

from suite.measurement.data_waiting import MeasuredBatches
from suite.rounds import HyperValue
from suite.workload import Run, Scores
from workloads.common import rng, run_request, weights
from workloads.common.inputs.device_copies import load_for_device
from workloads.common.inputs.device_waiting import open_wait_timer
from workloads.common.optimisation import collectives, mixed_precision, recomputation
from workloads.common.optimisation.step import MicroBatchLimit, Stepper
from workloads.common.optimisation.stepped_training import SteppedTraining
from workloads.common.text.bleu import BleuForm, compute_bleu
from workloads.common.text.parallel_text import list_translation_facts
from workloads.transformer import data, survey
from workloads.transformer.checkpoint import TRANSFORMER_NAME, TransformerDescription
from workloads.transformer.model import TransformerNetwork
from workloads.transformer.recipe import (
    MICRO_TOKENS_SETTING,
    DecodingParameters,
    TransformerRecipe,
    TransformerShape,
    compute_smoothed_label_entropy,
)
from workloads.transformer.translation.torch_tensors import build_torch_translator

# Legend: N sentences of a batch, S source and T target positions, X target tokens of a batch, V
# subtokens.


class TransformerTraining(SteppedTraining):
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, TRANSFORMER_NAME)
        self._recipe, self._decoding = (
            TransformerRecipe.build_from_settings(run.settings),
            DecodingParameters.build_from_settings(run.settings),
        )
        self._found = run_request.resolve_data_survey(run, survey.TransformerDataSet)
        self._shape = self._recipe.sizes.build_shape(int(self._found["vocabulary"]))
        self._model = build_seeded_transformer(
            run.seed, self._shape, self._recipe.dropout, run.device
        )
        self._stepper = Stepper(
            run, self._model, build_transformer_optimizer(self._model, self._recipe)
        )
        self._schedule = self._recipe.build_schedule()
        self._limit = MicroBatchLimit(
            setting=MICRO_TOKENS_SETTING,
            measure=data.TransformerBatch.count_padded_tokens,
            compute_loss=self._compute_batch_loss,
        )

    @cached_property
    def _data(self) -> data.TransformerTrainingData:
        """Open text and vocabulary; like everything that opens the data, this runs inside the
        clock.
        """
        return survey.load_surveyed_training_data(self._run, self._found, self._recipe)

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, and the signature of the metric."""
        return list_translation_facts(self._found, BleuForm.T2T)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`."""
        recipe, run, pairs = self._recipe, self._run, self._data.train
        planned = data.plan_transformer_batches(pairs, recipe, run.seed, epoch)
        first_number = (epoch - 1) * len(planned) + first_step  # every epoch has as many steps
        timer = open_wait_timer(self._device)
        self._stepper.network.train()
        if first_step == 0:  # a run resumed inside an epoch restores its generators
            rng.seed_epoch_generators(run.seed, epoch, run.rank)
        for number, batch_N in enumerate(planned[first_step:], first_number):
            step = data.plan_transformer_step(
                pairs, recipe, batch_N, epoch, run.rank, run.world_size
            )
            self._stepper.take_limited_step(
                replace(step, samples=pairs.count_target_tokens(batch_N)),
                self._schedule(number),
                MeasuredBatches(map(pairs.collate_pairs, step.micro_batches), timer),
                self._limit,
            )
            yield step.samples

    def _compute_batch_loss(self, batch: data.TransformerBatch) -> torch.Tensor:
        """Return the loss summed over a micro-batch's target tokens; padding is dropped before
        logits are computed.
        """
        source_NS, target_NT, token_X, label_X = (
            load_for_device(part, self._device).to(self._device, non_blocking=True)
            for part in (
                batch.source_NS,
                batch.target_NT,
                batch.token_X,
                batch.target_NT.ravel()[batch.token_X],
            )
        )
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            state_XW = self._stepper.network(source_NS, target_NT, token_X)
            return compute_state_loss(self._model, state_XW, label_X, self._recipe.smoothing)

    def evaluate(self) -> Scores:
        """Translate this rank's share of the sentences, and score those of all ranks."""
        self._stepper.network.eval()
        translate = build_torch_translator(self._model, self._decoding, self._run.device)
        found: list[tuple[int, str]] = []
        with (
            torch.inference_mode(),
            mixed_precision.build_autocast(self._run.device, self._run.precision),
        ):
            for indices in data.plan_translation_batches(
                self._data.sources, self._run.rank, self._run.world_size
            ):
                answers = translate([self._data.sources[index] for index in indices])
                found += zip(indices, map(self._data.text.words.decode_ids, answers), strict=True)
        texts = [
            text for _, text in sorted(collectives.gather_from_ranks(found, self._run.world_size))
        ]
        return {"bleu": compute_bleu(BleuForm.T2T, texts, self._data.test.targets)}

    def export(self, folder: Path) -> None:
        """Write the weights."""
        weights.write_exported_weights(
            self._model,
            TransformerDescription(
                workload=TRANSFORMER_NAME,
                shape=self._shape,
                vocabulary_sha256=self._found["vocabulary_sha256"],
            ),
            folder,
        )


def build_seeded_transformer(
    seed: int, shape: TransformerShape, dropout: float, device: str
) -> TransformerNetwork:
    """Build the network with the same initial weights on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = TransformerNetwork(shape, dropout)
    return network.to(device)


def build_transformer_optimizer(
    network: TransformerNetwork, recipe: TransformerRecipe
) -> torch.optim.Optimizer:
    """Create Adam; the reference's LazyAdam is equivalent with dense gradients, as here, where
    input and output share one matrix.
    """
    betas = (recipe.beta_1, recipe.beta_2)
    return torch.optim.Adam(
        network.parameters(), lr=recipe.base_rate, betas=betas, eps=recipe.epsilon, fused=True
    )


def compute_state_loss(
    network: TransformerNetwork, state_XW: torch.Tensor, label_X: torch.Tensor, smoothing: float
) -> torch.Tensor:
    """Return the summed loss of the tokens that states predict, whose logits are computed in
    chunks.
    """

    def compute_chunk_loss(part_XW: torch.Tensor, part_X: torch.Tensor) -> torch.Tensor:
        return compute_summed_loss(
            network.compute_output_logits(part_XW).float(), part_X, smoothing
        )

    losses = recomputation.compute_losses_in_chunks(
        compute_chunk_loss, state_XW, label_X, network.shape.vocabulary
    )
    return torch.stack(losses).sum()


def compute_summed_loss(
    logit_XV: torch.Tensor, label_X: torch.Tensor, smoothing: float
) -> torch.Tensor:
    """Cross-entropy with smoothed labels, minus its minimum; metrics.py, padded_cross_entropy_loss.

    The reference spreads the smoothed share over all other subtokens, torch over all: hence the
    factor.
    """
    vocabulary = logit_XV.shape[1]
    entropy = functional.cross_entropy(
        logit_XV,
        label_X,
        reduction="sum",
        label_smoothing=smoothing * vocabulary / (vocabulary - 1),
    )
    return entropy - len(label_X) * compute_smoothed_label_entropy(smoothing, vocabulary)
