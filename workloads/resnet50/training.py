"""The maths of one training run. The harness owns the clock, the log and the decision to stop."""

from collections.abc import Generator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from suite import events
from suite.input import Reader
from suite.rounds import HyperValue
from suite.workload import Run, Scores, StepPreparation
from workloads.common import inputs, run_request, weights
from workloads.common.inputs import batches
from workloads.common.optimisation import collectives, mixed_precision
from workloads.common.optimisation.convolution_search import search_convolution_algorithms
from workloads.common.optimisation.lars import Lars
from workloads.common.optimisation.prepared_loss import LossFunction, PreparedLoss
from workloads.common.optimisation.step import Stepper
from workloads.common.optimisation.stepped_training import SteppedTraining
from workloads.common.pictures import file_checks
from workloads.common.pictures.decoding import (
    build_row_constants,
    normalise_pictures,
    normalise_rows,
)
from workloads.resnet50 import data, model, survey
from workloads.resnet50.images.imagenet import ImageNetSplit
from workloads.resnet50.recipe import LARS, ResNet50Recipe

# Legend: N images of a batch, K classes, H height, W width, C channels.
RESNET50_EVAL_BATCH_PICTURES = 126  # images; any size gives the same scores


class ResNet50Training(SteppedTraining):
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        super().__init__(run, model.RESNET50_NAME)
        self._recipe = recipe = ResNet50Recipe.build_from_settings(run.settings)
        batches.check_micro_batch_span(recipe.batch_size, recipe.span, run.world_size)
        self._found = run_request.resolve_data_survey(run, survey.ImageNetDataSet)
        self._classes = tuple(self._found["classes"])
        self._sizes = {
            split: file_checks.parse_split_survey(self._found, split).usable
            for split in survey.IMAGENET_SPLITS
        }
        self._model = build_seeded_resnet50(run.seed, len(self._classes), recipe, self._device)
        self._stepper = Stepper(run, self._model, build_resnet50_optimizer(self._model, recipe))
        self._compute_batch_loss = PreparedLoss(
            run,
            select_resnet50_inputs,
            build_resnet50_loss(self._stepper.network, recipe, self._device),
        )
        self._schedule = recipe.build_schedule(len(self._plan_epoch(1)))

    def prepare_steps(self) -> Sequence[StepPreparation]:
        """Compile and record the steps of a whole micro-batch, on black images."""
        recipe, device = self._recipe, self._device
        shape = (recipe.span, recipe.picture_size, recipe.picture_size, 3)
        blank = (
            torch.zeros(shape, dtype=torch.uint8, device=device),
            torch.zeros(recipe.span, dtype=torch.int64, device=device),
            torch.ones(recipe.span, device=device),
        )
        with search_convolution_algorithms():
            return self._stepper.prepare_loss(
                self._compute_batch_loss, blank, compiled=recipe.compiled, recorded=recipe.recorded
            )

    @cached_property
    def _train_split(self) -> ImageNetSplit:
        """Index the training images; like everything that opens the data, this runs inside the
        clock.
        """
        split = survey.index_usable_images(self._run, self._found, "train")
        return split.shuffle_labels(self._run.seed) if self._recipe.shuffle_labels else split

    @cached_property
    def _val_split(self) -> ImageNetSplit:
        return survey.index_usable_images(self._run, self._found, "val")

    @cached_property
    def _train_reader(self) -> Reader[batches.SampleKey, data.LabelBatch]:
        recipe = self._recipe
        return inputs.open_input_reader(
            self._run,
            data.LabelledAlbum(
                self._train_split,
                recipe.picture_size,
                self._run.seed,
                recipe.smallest_area,
                recipe.crops,
            ),
            recipe.workers,
        )

    @cached_property
    def _eval_reader(self) -> Reader[batches.SampleKey, data.LabelBatch]:
        return inputs.open_input_reader(
            self._run,
            data.LabelledAlbum(self._val_split, self._recipe.picture_size),
            self._recipe.workers,
        )

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes of both splits, the signature of the metric, and the micro-batches of a
        step.
        """
        recipe = self._recipe
        size = recipe.picture_size
        signature = f"top1|resize:{data.compute_eval_short_side(size)}|crop:{size}|bilinear"
        return {
            "train_samples": self._sizes["train"],
            "eval_samples": self._sizes["val"],
            "metric_signature": signature,
            events.GRADIENT_ACCUMULATION_STEPS: batches.count_rank_micro_batches(
                recipe.batch_size, recipe.span, self._run.world_size
            ),
        }

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run the steps of an epoch from `first_step`; images of earlier steps are not
        decoded.
        """
        with search_convolution_algorithms():
            yield from self._stepper.take_planned_steps(
                self._plan_epoch(epoch),
                epoch,
                first_step,
                self._schedule,
                self._train_reader.read,
                self._compute_batch_loss,
            )

    def _plan_epoch(self, epoch: int) -> list[batches.OptimizerStep]:
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

    def _compute_logits(self, picture_NHWC: torch.Tensor) -> torch.Tensor:
        picture_NCHW = normalise_pictures(picture_NHWC.to(self._device, non_blocking=True))
        with mixed_precision.build_autocast(self._run.device, self._run.precision):
            logit_NK: torch.Tensor = self._stepper.network(picture_NCHW)
        return logit_NK

    def evaluate(self) -> Scores:
        """Count correct answers over all ranks, each rank on its share of the images."""
        collectives.average_batch_norm_statistics(self._model, self._run.world_size)
        self._stepper.network.eval()
        keys = batches.plan_evaluation_batches(
            self._sizes["val"], RESNET50_EVAL_BATCH_PICTURES, self._run.rank, self._run.world_size
        )
        correct = torch.zeros((), dtype=torch.int64, device=self._device)
        with torch.inference_mode():
            for picture_NHWC, labels in self._eval_reader.read(keys):
                found_N = self._compute_logits(picture_NHWC).argmax(dim=1)
                correct += (found_N == labels.label_N.to(self._device, non_blocking=True)).sum()
        return {
            "top1": (
                int(collectives.sum_over_ranks(correct, self._run.world_size)) / self._sizes["val"]
            )
        }

    def export(self, folder: Path) -> None:
        """Write the weights; the last evaluation has averaged the batch-norm statistics."""
        size = self._recipe.picture_size
        weights.write_exported_weights(
            self._model,
            model.ResNet50Description(
                workload=model.RESNET50_NAME, classes=self._classes, picture_size=size
            ),
            folder,
        )


def select_resnet50_inputs(
    batch: tuple[torch.Tensor, data.LabelBatch],
) -> tuple[torch.Tensor, ...]:
    """Return what of a batch the loss is computed from."""
    picture_NHWC, labels = batch
    return picture_NHWC, labels.label_N, labels.weight_N


def build_resnet50_loss(
    network: nn.Module, recipe: ResNet50Recipe, device: torch.device
) -> LossFunction:
    """Build the function of images, labels and weights that returns the loss summed over the
    images.
    """
    mean_R, scale_R = build_row_constants(device, recipe.picture_size)

    def compute_loss(
        picture_NHWC: torch.Tensor, label_N: torch.Tensor, weight_N: torch.Tensor
    ) -> torch.Tensor:
        logit_NK = network(normalise_rows(picture_NHWC, mean_R, scale_R)).float()
        loss_N = functional.cross_entropy(
            logit_NK, label_N, reduction="none", label_smoothing=recipe.smoothing
        )
        return (loss_N * weight_N).sum()

    return compute_loss


def build_seeded_resnet50(
    seed: int, classes: int, recipe: ResNet50Recipe, device: torch.device
) -> nn.Module:
    """Build the network with the same initial weights on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model.build_resnet50(classes, zero_init=recipe.zero_init)
        if recipe.start == model.REFERENCE_START:
            model.init_resnet50_as_reference(network)
    # not in the stubs
    return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def build_resnet50_optimizer(network: nn.Module, recipe: ResNet50Recipe) -> torch.optim.Optimizer:
    """Create the optimizer; biases and batch-norm parameters have no weight decay and, under LARS,
    no trust ratio.
    """
    decayed, undecayed = model.split_resnet50_parameters(network)
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": undecayed, "weight_decay": 0.0}]
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
