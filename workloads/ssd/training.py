"""The maths of one training run. The clock, the log and the decision to stop are the harness's."""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import torch
from torch import nn

from suite.rounds import HyperValue
from suite.workload import Block, Run, Scores
from workloads.common import batches, coco, inputs, memory, parallel, precision, weights
from workloads.common.coco import Split
from workloads.common.pictures import looked_over, normalise
from workloads.common.runs import training_row
from workloads.common.schedules import blocks
from workloads.common.stepping import Stepper
from workloads.ssd import data, detect, model, scoring
from workloads.ssd.boxes import CONFIGURATIONS, default_boxes
from workloads.ssd.loss import losses
from workloads.ssd.recipe import MOMENTUM, Recipe

# Legend: N pictures of a batch, B default boxes, K classes, H height, W width, C channels, 4 offsets.
EVAL_BATCH = 20  # pictures


class SSDTraining:
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        precision.prepare(run.device, run.precision)
        memory.keep_freed()
        torch.set_num_threads(run.threads)
        self._run, self._row = run, training_row(run, model.NAME)
        self._recipe = recipe = Recipe.of(run.settings)
        self._device = torch.device(run.device)
        self._configuration = CONFIGURATIONS[recipe.configuration]
        batches.check_span(recipe.batch_size, recipe.span, run.world_size)
        self._train, self._val = splits(run, recipe)
        self._truth = coco.truth(self._val)
        self._model = start(run.seed, 1 + len(self._train.categories), recipe, self._device)
        optimizer = torch.optim.SGD(self._model.parameters(), lr=recipe.base_rate, momentum=MOMENTUM, weight_decay=recipe.weight_decay)
        self._stepper = Stepper(run, self._model, optimizer, clip_norm=recipe.clip_norm)
        self._shown = inputs.opened(run, data.Shown(self._train, self._configuration, run.seed, recipe.max_samples), recipe.workers)
        self._asked = inputs.opened(run, data.Asked(self._val, self._configuration.picture_px), recipe.workers)
        self._default_B4 = default_boxes(self._configuration).to(self._device)
        self._schedule = recipe.schedule(len(self._plan(1)))

    def facts(self) -> Mapping[str, HyperValue]:
        """Sizes of the two splits, and how the metric is taken."""
        signature = f"coco-box-ap|0.50:0.95|100 detections|all pictures|resize:{self._configuration.picture_px}|bilinear"
        return {"train_samples": len(self._train), "eval_samples": len(self._val), "metric_signature": signature}

    def blocks(self) -> Iterator[Block]:
        """The round says when to evaluate."""
        return blocks(self._row)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Take the steps of an epoch from `first_step`; pictures of earlier steps are not decoded."""
        plan = self._plan(epoch)
        yield from self._stepper.epoch(plan[first_step:], (epoch - 1) * len(plan) + first_step, self._schedule, self._shown, self._loss)

    def _plan(self, epoch: int) -> list[batches.Step]:
        recipe, run = self._recipe, self._run
        return batches.steps(len(self._train), recipe.batch_size, recipe.span, run.seed, epoch, run.rank, run.world_size)

    def _loss(self, batch: tuple[torch.Tensor, data.Targets]) -> torch.Tensor:
        picture_NHWC, targets = batch[0], batch[1].to(self._device)
        offset_NB4, logit_NBK = self._answer(picture_NHWC)
        return (losses(offset_NB4, logit_NBK, targets.offset_NB4, targets.label_NB) * targets.weight_N).sum()

    def _answer(self, picture_NHWC: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with precision.autocast(self._run.device, self._run.precision):
            offset_NB4, logit_NBK = self._stepper.network(normalise(picture_NHWC.to(self._device, non_blocking=True)))
        return offset_NB4.float(), logit_NBK.float()

    def loss(self) -> float:
        """Mean over this rank's pictures of the last step; NaN before the first."""
        return self._stepper.loss()

    def evaluate(self) -> Scores:
        """Detect, each rank in its share of the pictures, and score the detections of all."""
        parallel.average_statistics(self._model, self._run.world_size)
        self._stepper.network.eval()
        keys = batches.asked(len(self._val), EVAL_BATCH, self._run.rank, self._run.world_size)
        found: list[tuple[int, bytes]] = []
        with torch.inference_mode():
            for part, (picture_NHWC, _) in zip(keys, self._asked.read(keys), strict=True):
                answered = self._answer(picture_NHWC)
                samples = [key.index for key in part]
                found += zip(samples, detect.answers(samples, *answered, self._default_B4), strict=True)
        return {scoring.METRIC: scoring.average_precision_of(dict(parallel.gathered(found, self._run.world_size)), self._truth)}

    def save(self, folder: Path) -> None:
        """All ranks; statistics are each rank's own until they are averaged."""
        self._stepper.save(folder)

    def restore(self, folder: Path) -> None:
        """Take up a saved state."""
        self._stepper.restore(folder)

    def export(self, folder: Path) -> None:
        """Write the weights; the last evaluation has averaged the statistics."""
        description = model.Description(workload=model.NAME, configuration=self._configuration.name, categories=self._train.categories)
        weights.export(self._model, description, folder)


def splits(run: Run, recipe: Recipe) -> tuple[Split, Split]:
    """Read and look over both splits."""
    train, val = (data.find(run, split) for split in ("train", "val"))
    coco.agree(train, val)
    train, val = (looked_over(split, run, skip=recipe.skip_broken) for split in (train.with_objects(), val))
    return (train.shuffled_labels(run.seed) if recipe.shuffle_labels else train), val


def start(seed: int, classes: int, recipe: Recipe, device: torch.device) -> nn.Module:
    """Make the network, the same one on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model.build(recipe.configuration, classes)
        if recipe.start_weights == model.RANDOM_START:
            model.start_small(network)
    if recipe.start_weights != model.RANDOM_START:
        model.start_from(network, Path(recipe.start_weights).expanduser())
    return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]  # not in the stubs
