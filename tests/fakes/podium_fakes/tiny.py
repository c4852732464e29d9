"""The fake workload's other training half (`--set fake.torch=true`): a real torch model of a few hundred numbers.

Dropout, momentum, batch-norm; under torchrun with DistributedDataParallel.
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


class TinyTraining(FakeTraining):
    """Learns a linear map of noise, with noise from all three generators; its score is the fake one's."""

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        torch.set_num_threads(1)
        torch.manual_seed(run.seed)  # the harness does for framework torch
        self.net: nn.Module = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
        self.model = nn.parallel.DistributedDataParallel(self.net) if run.world_size > 1 else self.net
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)

    def facts(self) -> Mapping[str, HyperValue]:
        """Give sizes."""
        return {**super().facts(), "metric_signature": "tiny"}

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Draw, step, climb."""
        for samples in super().train_epoch(epoch, first_step):
            picture_BC = torch.randn(8, 8) + float(np.random.rand()) + random.random()
            self.optimizer.zero_grad()
            self.error = (self.model(picture_BC)[:, 0] - picture_BC.sum(1)).square().mean()
            self.error.backward()
            self.optimizer.step()
            yield samples

    def loss(self) -> float:
        """Of the last step."""
        return float(self.error.detach())

    def save(self, folder: Path) -> None:
        """Keep everything that moves."""
        super().save(folder)
        generators = {"torch": torch.get_rng_state(), "numpy": torch.from_numpy(np.random.get_state()[1].astype("int64"))}
        place = torch.tensor(np.random.get_state()[2])
        torch.save({**generators, "place": place, "net": self.net.state_dict(), "opt": self.optimizer.state_dict()}, folder / f"tiny-{self.run.rank}.pt")

    def restore(self, folder: Path) -> None:
        """Take it back."""
        super().restore(folder)
        found = torch.load(folder / f"tiny-{self.run.rank}.pt", weights_only=True)
        self.net.load_state_dict(found["net"])
        self.optimizer.load_state_dict(found["opt"])
        torch.set_rng_state(found["torch"])
        np.random.set_state(("MT19937", found["numpy"].numpy().astype("uint32"), int(found["place"])))

    def export(self, folder: Path) -> None:
        """The weights, under canonical names."""
        super().export(folder)
        save_file(self.net.state_dict(), folder / "model.safetensors")
