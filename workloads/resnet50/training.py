"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from suite.input import Reader
from suite.rounds import HyperValue
from suite.workload import Block, Run, Scores
from workloads.common import inputs, malloc, run_request, weights
from workloads.common.inputs import batches
from workloads.common.optimisation import collectives, mixed_precision
from workloads.common.optimisation.lars import Lars
from workloads.common.optimisation.schedules import iterate_epoch_blocks
from workloads.common.optimisation.step import Stepper
from workloads.common.pictures import file_checks
from workloads.common.pictures.decoding import normalise_pictures
from workloads.common.run_request import require_run_training_row
from workloads.resnet50 import data, model, survey
from workloads.resnet50.images.imagenet import Pictures
from workloads.resnet50.recipe import LARS, Recipe

# Legend: N pictures of a batch, K classes, H height, W width, C channels.
EVAL_BATCH = 126  # pictures; any size gives the same scores


class ResNet50Training:
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        mixed_precision.prepare_training_precision(run.device, run.precision)
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        self._run, self._row = run, require_run_training_row(run, model.NAME)
        self._recipe = recipe = Recipe.of(run.settings)
        self._device = torch.device(run.device)
        batches.check_micro_batch_span(recipe.batch_size, recipe.span, run.world_size)
        self._found = run_request.resolve_data_survey(run, survey.ImageNetSet)
        self._classes = tuple(self._found["classes"])
        self._sizes = {
            split: file_checks.parse_split_survey(self._found, split).usable
            for split in survey.SPLITS
        }
        self._model = start(run.seed, len(self._classes), recipe, self._device)
        self._stepper = Stepper(run, self._model, optimizer(self._model, recipe))
        self._schedule = recipe.schedule(len(self._plan(1)))

    @cached_property
    def _train(self) -> Pictures:
        """Index the training pictures; like everything that opens the data, this runs inside the
        clock.
        """
        split = survey.opened(self._run, self._found, "train")
        return split.shuffled_labels(self._run.seed) if self._recipe.shuffle_labels else split

    @cached_property
    def _val(self) -> Pictures:
        return survey.opened(self._run, self._found, "val")

    @cached_property
    def _shown(self) -> Reader[batches.SampleKey, data.Labels]:
        recipe = self._recipe
        return inputs.open_input_reader(
            self._run,
            data.Album(
                self._train, recipe.picture_size, self._run.seed, recipe.smallest_area, recipe.crops
            ),
            recipe.workers,
        )

    @cached_property
    def _asked(self) -> Reader[batches.SampleKey, data.Labels]:
        return inputs.open_input_reader(
            self._run, data.Album(self._val, self._recipe.picture_size), self._recipe.workers
        )

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, and the signature of the metric."""
        size = self._recipe.picture_size
        signature = f"top1|resize:{data.eval_short_side(size)}|crop:{size}|bilinear"
        return {
            "train_samples": self._sizes["train"],
            "eval_samples": self._sizes["val"],
            "metric_signature": signature,
        }

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of epochs between evaluations, as the round's row sets them."""
        return iterate_epoch_blocks(self._row)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`; pictures of earlier steps are not
        decoded.
        """
        plan = self._plan(epoch)
        yield from self._stepper.take_planned_steps(
            plan[first_step:],
            (epoch - 1) * len(plan) + first_step,
            self._schedule,
            self._shown,
            self._loss,
        )

    def _plan(self, epoch: int) -> list[batches.OptimizerStep]:
        recipe, run = self._recipe, self._run
        return batches.plan_epoch_steps(
            self._sizes["train"],
            recipe.batch_size,
            recipe.span,
            run.seed,
            epoch,
            run.rank,
            run.world_size,
        )

    def _loss(self, batch: tuple[torch.Tensor, data.Labels]) -> torch.Tensor:
        picture_NHWC, labels = batch
        label_N = labels.label_N.to(self._device, non_blocking=True)
        weight_N = labels.weight_N.to(self._device, non_blocking=True)
        logit_NK = self._logits(picture_NHWC).float()
        loss_N = functional.cross_entropy(
            logit_NK, label_N, reduction="none", label_smoothing=self._recipe.smoothing
        )
        return (loss_N * weight_N).sum()

    def _logits(self, picture_NHWC: torch.Tensor) -> torch.Tensor:
        picture_NCHW = normalise_pictures(picture_NHWC.to(self._device, non_blocking=True))
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            logit_NK: torch.Tensor = self._stepper.network(picture_NCHW)
        return logit_NK

    def loss(self) -> float:
        """Mean loss over this rank's pictures in the last step; NaN before the first."""
        return self._stepper.compute_mean_loss()

    def evaluate(self) -> Scores:
        """Count correct answers over all ranks, each rank on its share of the pictures."""
        collectives.average_batch_norm_statistics(self._model, self._run.world_size)
        self._stepper.network.eval()
        keys = batches.plan_evaluation_batches(
            self._sizes["val"], EVAL_BATCH, self._run.rank, self._run.world_size
        )
        right = torch.zeros((), dtype=torch.int64, device=self._device)
        with torch.inference_mode():
            for picture_NHWC, labels in self._asked.read(keys):
                right += (
                    (self._logits(picture_NHWC).argmax(dim=1).cpu() == labels.label_N)
                    .sum()
                    .to(self._device)
                )
        return {
            "top1": (
                int(collectives.sum_over_ranks(right, self._run.world_size)) / self._sizes["val"]
            )
        }

    def save(self, folder: Path) -> None:
        """Save the state; every rank calls this, since each has its own batch-norm statistics until
        they are averaged.
        """
        self._stepper.save(folder)

    def restore(self, folder: Path) -> None:
        """Restore a saved state."""
        self._stepper.restore(folder)

    def export(self, folder: Path) -> None:
        """Write the weights; the last evaluation has averaged the batch-norm statistics."""
        size = self._recipe.picture_size
        weights.write_exported_weights(
            self._model,
            model.Description(workload=model.NAME, classes=self._classes, picture_size=size),
            folder,
        )


def start(seed: int, classes: int, recipe: Recipe, device: torch.device) -> nn.Module:
    """Build the network with the same initial weights on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model.build(classes, zero_init=recipe.zero_init)
        if recipe.start == model.REFERENCE:
            model.start_as_reference(network)
    return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]  # not in the stubs


def optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Create the optimizer; biases and batch-norm parameters have no weight decay and, under LARS,
    no trust ratio.
    """
    decayed, plain = model.parameter_groups(network)
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
    if recipe.optimizer == LARS:
        groups[1]["adapt"] = False
        return Lars(
            groups,
            lr=recipe.base_rate,
            momentum=recipe.momentum,
            weight_decay=recipe.weight_decay,
            epsilon=recipe.epsilon,
        )
    return torch.optim.SGD(
        groups,
        lr=recipe.base_rate,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=recipe.nesterov,
    )
