"""The fake workload's other training half (`--set fake.torch=true`): a real torch model of a few
hundred numbers.

Dropout, momentum, batch-norm; under torchrun one sum of all gradients a step, with `--set
fake.ddp=true` DistributedDataParallel. The momentum is kept here: torch.optim and
DistributedDataParallel load PyTorch's compiler, as much again as PyTorch itself in each of hundreds
of processes.
"""

import random
from collections.abc import Generator, Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from podium_fakes.fake import FakeTraining
from suite.rounds import HyperValue
from suite.workload import Run

RATE = 0.01
MOMENTUM = 0.9


class TinyTraining(FakeTraining):
    """Learns a linear map of noise, with noise from all three generators; its score is the fake
    one's.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        torch.set_num_threads(1)
        torch.manual_seed(run.seed)  # the harness does for framework torch
        self.net: nn.Module = nn.Sequential(
            nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1)
        )
        self.by_hand = run.world_size > 1 and not run.settings["fake.ddp"]
        self.model = (
            nn.parallel.DistributedDataParallel(self.net)
            if run.world_size > 1 and not self.by_hand
            else self.net
        )
        self.momentum = [torch.zeros_like(weight) for weight in self.net.parameters()]

    def facts(self) -> Mapping[str, HyperValue]:
        """Give sizes."""
        return {**super().facts(), "metric_signature": "tiny"}

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Draw, step, climb."""
        for samples in super().train_epoch(epoch, first_step):
            picture_BC = torch.randn(8, 8) + float(np.random.rand()) + random.random()
            self.net.zero_grad()
            self.error = (self.model(picture_BC)[:, 0] - picture_BC.sum(1)).square().mean()
            self.error.backward()
            self.step()
            yield samples

    @torch.no_grad()
    def step(self) -> None:
        """SGD with the mean of all ranks' gradients."""
        for weight, momentum in zip(self.net.parameters(), self.momentum, strict=True):
            assert weight.grad is not None
            if self.by_hand:
                torch.distributed.all_reduce(weight.grad)
                weight.grad /= self.run.world_size
            momentum.mul_(MOMENTUM).add_(weight.grad)
            weight.sub_(RATE * momentum)

    def loss(self) -> float:
        """Of the last step."""
        return float(self.error.detach())

    def save(self, folder: Path) -> None:
        """Keep everything that moves."""
        super().save(folder)
        generators = {
            "torch": torch.get_rng_state(),
            "numpy": torch.from_numpy(np.random.get_state()[1].astype("int64")),
        }
        place = torch.tensor(np.random.get_state()[2])
        torch.save(
            {**generators, "place": place, "net": self.net.state_dict(), "momentum": self.momentum},
            folder / f"tiny-{self.run.rank}.pt",
        )

    def restore(self, folder: Path) -> None:
        """Take it back."""
        super().restore(folder)
        found = torch.load(folder / f"tiny-{self.run.rank}.pt", weights_only=True)
        self.net.load_state_dict(found["net"])
        self.momentum = found["momentum"]
        torch.set_rng_state(found["torch"])
        np.random.set_state(
            ("MT19937", found["numpy"].numpy().astype("uint32"), int(found["place"]))
        )

    def export(self, folder: Path) -> None:
        """The weights, under canonical names."""
        super().export(folder)
        save_file(self.net.state_dict(), folder / "model.safetensors")
