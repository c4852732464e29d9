"""The maths of one training run. The clock, the log and the decision to stop are the harness's."""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from suite.errors import RequestError
from suite.rounds import HyperValue, TrainingRow
from suite.workload import Block, Run, Scores
from workloads.common import memory, parallel, precision, rng
from workloads.common.lars import Lars
from workloads.common.schedules import blocks
from workloads.resnet50 import data, model, pictures
from workloads.resnet50.recipe import LARS, Recipe

# Legend: N pictures of a batch, K classes, H height, W width, C channels.
EVAL_BATCH = 126  # pictures; any size gives the same scores


class ResNet50Training:
    """Model, data and optimizer of one rank."""

    def __init__(self, run: Run) -> None:
        precision.prepare(run.precision)
        memory.keep_freed()
        torch.set_num_threads(run.threads)
        self._run, self._row = run, training_row(run)
        self._recipe = recipe = Recipe.of(run.settings)
        self._device = torch.device(run.device)
        check_batch(recipe, run.world_size)
        self._train, self._val = splits(run, recipe)
        self._model = start(run.seed, len(self._train.classes), recipe, self._device)
        self._network = parallel.wrapped(self._model, self._device, run.world_size)
        self._optimizer = optimizer(self._model, recipe)
        self._scaler = precision.scaler(run.device, run.precision)
        self._loaders = loaders(self._train, self._val, recipe, run.seed, pinned=self._device.type == "cuda")
        self._steps_per_epoch = -(-len(self._train) // recipe.batch_size)
        self._schedule = recipe.schedule(self._steps_per_epoch)
        self._losses: list[torch.Tensor] = []

    def facts(self) -> Mapping[str, HyperValue]:
        """Sizes of the two splits, and how the metric is taken."""
        size = self._recipe.picture_size
        signature = f"top1|resize:{data.eval_short_side(size)}|crop:{size}|bilinear"
        return {"train_samples": len(self._train), "eval_samples": len(self._val), "metric_signature": signature}

    def blocks(self) -> Iterator[Block]:
        """The round says how often to evaluate."""
        return blocks(self._row)

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Take the steps of an epoch from `first_step`; pictures of earlier steps are not decoded."""
        plan = self._plan(epoch)[first_step:]
        batches = self._loaders[0].read([keys for step in plan for keys in step.micro_batches])
        self._network.train()
        for number, step in enumerate(plan, (epoch - 1) * self._steps_per_epoch + first_step):
            set_rate(self._optimizer, self._schedule(number))
            self._accumulate(step, batches)
            self._scaler.step(self._optimizer)
            self._scaler.update()
            yield step.samples

    def _plan(self, epoch: int) -> list[data.Step]:
        recipe, run = self._recipe, self._run
        return data.steps(len(self._train), recipe.batch_size, recipe.span, run.seed, epoch, run.rank, run.world_size)

    def _accumulate(self, step: data.Step, batches: Iterator[data.Batch]) -> None:
        """Sum the gradients of a global batch; DDP divides by the ranks, so the loss is multiplied by them."""
        self._optimizer.zero_grad()
        self._losses = []
        last = len(step.micro_batches) - 1
        for number in range(len(step.micro_batches)):
            with parallel.synced(self._network, last=number == last):
                loss = self._loss(next(batches)) * (self._run.world_size / step.samples)
                self._scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
            self._losses.append(loss.detach())

    def _loss(self, batch: data.Batch) -> torch.Tensor:
        label_N = batch.label_N.to(self._device, non_blocking=True)
        weight_N = batch.weight_N.to(self._device, non_blocking=True)
        logit_NK = self._logits(batch).float()
        loss_N = functional.cross_entropy(logit_NK, label_N, reduction="none", label_smoothing=self._recipe.smoothing)
        return (loss_N * weight_N).sum()

    def _logits(self, batch: data.Batch) -> torch.Tensor:
        picture_NCHW = data.normalise(batch.picture_NHWC.to(self._device, non_blocking=True))
        with precision.autocast(self._run.device, self._run.precision):
            logit_NK: torch.Tensor = self._network(picture_NCHW)
        return logit_NK

    def loss(self) -> float:
        """Mean over this rank's pictures of the last step; NaN before the first."""
        return float(torch.stack(self._losses).sum()) if self._losses else float("nan")

    def evaluate(self) -> Scores:
        """Count right answers, each rank on its share of the pictures."""
        parallel.average_statistics(self._model, self._run.world_size)
        self._network.eval()
        mine = range(self._run.rank, len(self._val), self._run.world_size)
        keys = [[data.Key(index=index) for index in mine[start : start + EVAL_BATCH]] for start in range(0, len(mine), EVAL_BATCH)]
        right = torch.zeros((), dtype=torch.int64, device=self._device)
        with torch.inference_mode():
            for batch in self._loaders[1].read(keys):
                right += (self._logits(batch).argmax(dim=1).cpu() == batch.label_N).sum().to(self._device)
        return {"top1": int(parallel.summed(right, self._run.world_size)) / len(self._val)}

    def save(self, folder: Path) -> None:
        """Rank 0 writes what all share; each rank writes its generators and its own batch-norm statistics.

        Statistics are not averaged here: a run that was saved and one that was not stay equal to the last bit.
        """
        if self._run.rank == 0:
            shared = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict(), "scaler": self._scaler.state_dict()}
            torch.save(shared, folder / "state.pt")
        torch.save({"rng": rng.state(), "buffers": dict(self._model.named_buffers())}, self._own(folder))

    def restore(self, folder: Path) -> None:
        """Take up a saved state; nothing in it is executed."""
        shared: dict[str, Any] = torch.load(folder / "state.pt", map_location=self._device, weights_only=True)
        own: dict[str, Any] = torch.load(self._own(folder), map_location=self._device, weights_only=True)
        self._model.load_state_dict(shared["model"])
        self._model.load_state_dict(own["buffers"], strict=False)
        self._optimizer.load_state_dict(shared["optimizer"])
        self._scaler.load_state_dict(shared["scaler"])
        rng.restore(own["rng"])

    def _own(self, folder: Path) -> Path:
        return folder / f"rank-{self._run.rank}.pt"

    def export(self, folder: Path) -> None:
        """Write the weights; the last evaluation has averaged the statistics."""
        size = self._recipe.picture_size
        model.export(self._model, model.Description(workload=model.NAME, classes=self._train.classes, picture_size=size), folder)


def training_row(run: Run) -> TrainingRow:
    """Find the profile's row."""
    row = run.round.benchmark(model.NAME).training.get(run.profile)
    if row is None:
        raise RequestError(f"{model.NAME}: round {run.round.name} has no training in profile {run.profile}")
    return row


def check_batch(recipe: Recipe, world_size: int) -> None:
    """Refuse a global batch that the ranks cannot share in micro-batches of the span that the log names."""
    if recipe.batch_size % (recipe.span * world_size):
        raise RequestError(
            f"global_batch_size {recipe.batch_size} is no multiple of model_bn_span {recipe.span} times {world_size} ranks; "
            f"--set model_bn_span={max(1, recipe.batch_size // world_size)} has one micro-batch on each rank"
        )


def splits(run: Run, recipe: Recipe) -> tuple[pictures.Pictures, pictures.Pictures]:
    """Index and look over both splits."""
    root = run.data or data.embedded_folder(run.cache)
    train, val = (pictures.find(root, split) for split in ("train", "val"))
    pictures.agree(train, val)
    train, val = (looked_over(split, run, skip=recipe.skip_broken) for split in (train, val))
    return (train.shuffled_labels(run.seed) if recipe.shuffle_labels else train), val


def looked_over(split: pictures.Pictures, run: Run, *, skip: bool) -> pictures.Pictures:
    """Let each rank look at its share, and all of them come to the same end."""
    bad = pictures.broken(split, range(run.rank, len(split), run.world_size))
    return pictures.settle(split, parallel.gathered(bad, run.world_size), skip=skip)


def loaders(train: pictures.Pictures, val: pictures.Pictures, recipe: Recipe, seed: int, *, pinned: bool) -> tuple[data.Loader, data.Loader]:
    """Make the loaders of training and evaluation."""
    shown = data.Samples(train, recipe.picture_size, seed, recipe.smallest_area)
    asked = data.Samples(val, recipe.picture_size)
    return data.Loader(shown, recipe.workers, pinned=pinned), data.Loader(asked, recipe.workers, pinned=pinned)


def start(seed: int, classes: int, recipe: Recipe, device: torch.device) -> nn.Module:
    """Make the network, the same one on every rank."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = model.build(classes, zero_init=recipe.zero_init)
    return network.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]  # not in the stubs


def optimizer(network: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    """Make the optimizer; biases and batch-norm parameters are not decayed and, under LARS, not adapted."""
    decayed, plain = model.parameter_groups(network)
    groups: list[dict[str, Any]] = [{"params": decayed}, {"params": plain, "weight_decay": 0.0}]
    if recipe.optimizer == LARS:
        groups[1]["adapt"] = False
        return Lars(groups, lr=recipe.base_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, epsilon=recipe.epsilon)
    return torch.optim.SGD(groups, lr=recipe.base_rate, momentum=recipe.momentum, weight_decay=recipe.weight_decay, nesterov=recipe.nesterov)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of the next step."""
    for group in optimizer.param_groups:
        group["lr"] = rate
