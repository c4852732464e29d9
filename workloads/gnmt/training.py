"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import torch

from suite.rounds import HyperValue
from suite.workload import Block, Run, Scores
from workloads.common import malloc, rng, run_request, weights
from workloads.common.inputs import batches
from workloads.common.optimisation import collectives, mixed_precision
from workloads.common.optimisation.schedules import blocks
from workloads.common.optimisation.step import Stepper
from workloads.common.run_request import training_row
from workloads.common.text import bucketing, encoded
from workloads.common.text.bleu import Form, bleu, signature
from workloads.common.text.parallel_text import CORPUS, TARGET, TEST, TRAIN
from workloads.gnmt import data, decoding, model, survey
from workloads.gnmt.data import Batch, Pairs, Text
from workloads.gnmt.recipe import BETAS, EPSILON, Recipe
from workloads.gnmt.subwords import Moses

# Legend: N sentences of a batch, S source positions, T target positions, V vocabulary.
EVAL_BATCH: Final = 64  # sentences; any size gives the same answers, except for rounding


class GNMTTraining:
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        mixed_precision.prepare(run.device, run.precision)
        malloc.keep_freed()
        torch.set_num_threads(run.threads)
        self._run, self._row = run, training_row(run, model.NAME)
        self._recipe = recipe = Recipe.of(run.settings)
        self._device = torch.device(run.device)
        self._found = run_request.found(run, survey.GnmtText)
        self._network = model.start(
            run.seed,
            int(self._found["vocabulary"]),
            recipe.width,
            recipe.layers,
            recipe.dropout,
            recipe.initial,
        ).to(self._device)
        adam = torch.optim.Adam(
            self._network.parameters(), lr=recipe.base_rate, betas=BETAS, eps=EPSILON
        )
        self._stepper = Stepper(run, self._network, adam, clip_norm=recipe.clip_norm)

    @cached_property
    def _text(self) -> Text:
        """Open the encoded text; like everything that opens the data, this runs inside the
        clock.
        """
        return data.opened(encoded.prepared(self._run, self._found))

    @cached_property
    def _train(self) -> Pairs:
        """Return the training pairs within the length limit."""
        pairs = self._text.pairs(TRAIN).up_to(self._recipe.max_sequence_length)
        return pairs.shuffled(self._run.seed) if self._recipe.shuffle_labels else pairs

    @cached_property
    def _test(self) -> Pairs:
        return self._text.pairs(TEST)

    @cached_property
    def _loader(self) -> batches.Loader[data.Sample, Batch]:
        pinned = self._device.type == "cuda"
        return batches.Loader(
            data.Samples(self._train), data.collate, self._recipe.workers, pinned=pinned
        )

    @cached_property
    def _steps_per_epoch(self) -> int:
        return len(self._plan(1))

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, the training size before the length limit, and the
        signature of the metric.
        """
        counts = {
            "train_samples": self._found[TRAIN],
            "corpus_samples": self._found[CORPUS],
            "eval_samples": self._found[TEST],
        }
        return {**counts, "metric_signature": signature(Form.SACREBLEU)}

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of epochs between evaluations, as the round's row sets them."""
        return blocks(self._row)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`."""
        plan = self._plan(epoch)[first_step:]
        shown = self._loader.read([keys for step in plan for keys in step.micro_batches])
        self._stepper.network.train()
        if first_step == 0:  # a run resumed inside an epoch restores its generators
            rng.sow(self._run.seed, epoch, self._run.rank)
        for number, step in enumerate(plan, (epoch - 1) * self._steps_per_epoch + first_step):
            self._stepper.take(step, self._recipe.schedule(number), shown, self._loss)
            yield step.samples

    def _plan(self, epoch: int) -> list[batches.Step]:
        recipe, run = self._recipe, self._run
        bounds = bucketing.even_bounds(int(self._train.lengths.max()), recipe.buckets)
        whole = bucketing.plan(
            self._train.lengths, bounds, lambda _: recipe.batch_size, run.seed, epoch
        )
        return batches.shared(whole, recipe.batch_size, epoch, run.rank, run.world_size)

    def _loss(self, batch: Batch) -> torch.Tensor:
        """Return the loss summed over a micro-batch's sentences, each with its weight."""
        batch = batch.to(self._device)
        with mixed_precision.autocast(self._run.device, self._run.precision):
            logit_NTV = self._stepper.network(
                batch.source_NS, batch.length_N, batch.target_NT[:, :-1]
            )
        return (
            model.loss_N(logit_NTV, batch.target_NT[:, 1:], self._recipe.smoothing) * batch.weight_N
        ).sum()

    def loss(self) -> float:
        """Mean loss over this rank's sentences in the last step; NaN before the first."""
        return self._stepper.loss()

    def evaluate(self) -> Scores:
        """Translate this rank's share of the test split, and score the translations of all ranks
        against the references.
        """
        self._stepper.network.eval()
        answers = dict(collectives.gathered(list(self._answers()), self._run.world_size))
        moses, subwords = Moses(TARGET), self._text.subwords
        texts = [moses.join(subwords.decode(answers[index])) for index in range(len(self._test))]
        return {"bleu": bleu(Form.SACREBLEU, texts, self._text.translations)}

    def _answers(self) -> Iterator[tuple[int, list[int]]]:
        recipe, network = self._recipe, self._network
        translator = decoding.Translator.of(network, self._device)
        beam = decoding.beam(decoding.EVALUATION, recipe.max_answer_length)
        mine = sorted(
            range(self._run.rank, len(self._test), self._run.world_size),
            key=self._test.lengths.__getitem__,
        )
        for start in range(0, len(mine), EVAL_BATCH):
            asked = mine[start : start + EVAL_BATCH]
            sources = [
                data.shortened(self._test.pair(index)[0], recipe.max_answer_length)
                for index in asked
            ]
            with (
                torch.inference_mode(),
                mixed_precision.autocast(self._run.device, self._run.precision),
            ):
                yield from zip(asked, translator.translate(sources, beam), strict=True)

    def save(self, folder: Path) -> None:
        """Save the state; every rank calls this."""
        self._stepper.save(folder)

    def restore(self, folder: Path) -> None:
        """Restore a saved state."""
        self._stepper.restore(folder)

    def export(self, folder: Path) -> None:
        """Write the weights, and the hash of their vocabulary."""
        subwords, recipe = self._text.subwords, self._recipe
        description = model.Description(
            workload=model.NAME,
            framework=model.FRAMEWORK,
            width=recipe.width,
            layers=recipe.layers,
            vocabulary=len(subwords.tokens),
            vocabulary_sha256=subwords.sha256,
            max_answer_length=recipe.max_answer_length,
        )
        weights.export(self._network, description, folder)
