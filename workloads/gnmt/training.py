"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import torch

from suite.rounds import HyperValue
from suite.workload import Run, Scores
from workloads.common import rng, run_request, weights
from workloads.common.inputs import batches
from workloads.common.optimisation import collectives, mixed_precision
from workloads.common.optimisation.step import MicroBatchLimit, Stepper
from workloads.common.optimisation.stepped_training import SteppedTraining
from workloads.common.text import bucketing, encoded
from workloads.common.text.bleu import BleuForm, compute_bleu
from workloads.common.text.parallel_text import (
    TARGET_SUFFIX,
    TEXT_TEST_SPLIT,
    TEXT_TRAIN_SPLIT,
    list_translation_facts,
)
from workloads.gnmt import data, decoding, model, survey
from workloads.gnmt.data import GNMTBatch, GNMTPairs, GNMTPreparedText
from workloads.gnmt.recipe import (
    GNMT_ADAM_BETAS,
    GNMT_ADAM_EPSILON,
    MICRO_BATCH_SETTING,
    GNMTRecipe,
)
from workloads.gnmt.subwords import MosesSplitter

# Legend: N sentences of a batch, S source positions, T target positions, H hidden width.
GNMT_EVALUATION_BATCH: Final = 64  # sentences; any size gives the same answers, except for rounding


class GNMTTraining(SteppedTraining):
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, model.GNMT_NAME)
        self._recipe = recipe = GNMTRecipe.build_from_settings(run.settings)
        self._found = run_request.resolve_data_survey(run, survey.GNMTDataSet)
        self._network = model.build_seeded_gnmt(
            run.seed,
            int(self._found["vocabulary"]),
            recipe.width,
            recipe.layers,
            recipe.dropout,
            recipe.initial,
        ).to(self._device)
        adam = build_gnmt_optimizer(self._network, recipe, self._device)
        self._stepper = Stepper(run, self._network, adam, clip_norm=recipe.clip_norm)
        self._limit = MicroBatchLimit(
            setting=MICRO_BATCH_SETTING, measure=len, compute_loss=self._compute_batch_loss
        )

    @cached_property
    def _text(self) -> GNMTPreparedText:
        """Open the encoded text; like everything that opens the data, this runs inside the
        clock.
        """
        return data.load_gnmt_text(encoded.resolve_encoded_folder(self._run, self._found))

    @cached_property
    def _training_pairs(self) -> GNMTPairs:
        """Return the training pairs within the length limit."""
        pairs = self._text.load_pairs(TEXT_TRAIN_SPLIT).drop_long_pairs(
            self._recipe.max_sequence_length
        )
        return pairs.shuffle_translations(self._run.seed) if self._recipe.shuffle_labels else pairs

    @cached_property
    def _test_pairs(self) -> GNMTPairs:
        return self._text.load_pairs(TEXT_TEST_SPLIT)

    @cached_property
    def _loader(self) -> batches.BatchLoader[data.WeightedPair, GNMTBatch]:
        pinned = self._device.type == "cuda"
        return batches.BatchLoader(
            data.GNMTSamples(self._training_pairs),
            data.collate_gnmt_pairs,
            self._recipe.workers,
            pinned=pinned,
        )

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, and the signature of the metric."""
        return list_translation_facts(self._found, BleuForm.SACREBLEU)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`."""
        planned = self._plan_epoch(epoch)
        first_number = (epoch - 1) * len(planned) + first_step  # every epoch has as many steps
        plan = planned[first_step:]
        loaded_batches = self._stepper.read_to_device(
            self._loader.read([keys for step in plan for keys in step.micro_batches])
        )
        self._stepper.network.train()
        if first_step == 0:  # a run resumed inside an epoch restores its generators
            rng.seed_epoch_generators(self._run.seed, epoch, self._run.rank)
        for number, step in enumerate(plan, first_number):
            self._stepper.take_limited_step(
                step, self._recipe.schedule(number), loaded_batches, self._limit
            )
            yield step.samples

    def _plan_epoch(self, epoch: int) -> list[batches.OptimizerStep]:
        recipe, run = self._recipe, self._run
        bounds = bucketing.compute_even_bounds(
            int(self._training_pairs.lengths.max()), recipe.buckets
        )
        global_batches = bucketing.plan_bucketed_batches(
            self._training_pairs.lengths, bounds, lambda _: recipe.batch_size, run.seed, epoch
        )
        return batches.plan_rank_steps(
            global_batches, recipe.micro_batch, epoch, run.rank, run.world_size
        )

    def _compute_batch_loss(self, batch: GNMTBatch) -> torch.Tensor:
        """Return the loss summed over a micro-batch's sentences, each with its weight."""
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            state_NTH = self._stepper.network(
                batch.source_NS, batch.length_N, batch.target_NT[:, :-1]
            )
            loss_N = model.compute_sentence_losses(
                self._network, state_NTH, batch.target_NT[:, 1:], self._recipe.smoothing
            )
        return (loss_N * batch.weight_N).sum()

    def evaluate(self) -> Scores:
        """Translate this rank's share of the test split, and score the translations of all ranks
        against the references.
        """
        self._stepper.network.eval()
        answers = dict(
            collectives.gather_from_ranks(list(self._translate_rank_share()), self._run.world_size)
        )
        moses, subwords = MosesSplitter(TARGET_SUFFIX), self._text.subwords
        texts = [
            moses.join_words(subwords.decode_words(answers[index]))
            for index in range(len(self._test_pairs))
        ]
        return {"bleu": compute_bleu(BleuForm.SACREBLEU, texts, self._text.translations)}

    def _translate_rank_share(self) -> Iterator[tuple[int, list[int]]]:
        recipe, network = self._recipe, self._network
        translator = decoding.GNMTTranslator.build_without_engine(network, self._device)
        beam = decoding.build_gnmt_beam(decoding.EVALUATION_BEAM_RULE, recipe.max_answer_length)
        rank_indices = sorted(
            range(self._run.rank, len(self._test_pairs), self._run.world_size),
            key=self._test_pairs.lengths.__getitem__,
        )
        for start in range(0, len(rank_indices), GNMT_EVALUATION_BATCH):
            indices = rank_indices[start : start + GNMT_EVALUATION_BATCH]
            sources = [
                data.truncate_gnmt_source(
                    self._test_pairs.get_pair(index)[0], recipe.max_answer_length
                )
                for index in indices
            ]
            with (
                torch.inference_mode(),
                mixed_precision.build_autocast(self._run.device, self._run.precision),
            ):
                yield from zip(indices, translator.translate_sentences(sources, beam), strict=True)

    def export(self, folder: Path) -> None:
        """Write the weights, and the hash of their vocabulary."""
        subwords, recipe = self._text.subwords, self._recipe
        description = model.GNMTDescription(
            workload=model.GNMT_NAME,
            framework=model.GNMT_FRAMEWORK,
            width=recipe.width,
            layers=recipe.layers,
            vocabulary=len(subwords.tokens),
            vocabulary_sha256=subwords.sha256,
            max_answer_length=recipe.max_answer_length,
        )
        weights.write_exported_weights(self._network, description, folder)


def build_gnmt_optimizer(
    network: model.GNMTNetwork, recipe: GNMTRecipe, device: torch.device
) -> torch.optim.Optimizer:
    """Create Adam; on a GPU as one kernel for all weights."""
    return torch.optim.Adam(
        network.parameters(),
        lr=recipe.base_rate,
        betas=GNMT_ADAM_BETAS,
        eps=GNMT_ADAM_EPSILON,
        fused=True if device.type == "cuda" else None,
    )
