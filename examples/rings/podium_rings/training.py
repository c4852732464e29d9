"""The maths of one run, on one rank."""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import torch
from torch import nn

from podium_rings import data, model
from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.workload import Block, Run, Scores


class RingsTraining:
    """Stochastic gradient descent on a few thousand points."""

    def __init__(self, run: Run) -> None:
        if run.world_size > 1:
            raise RequestError("rings trains on one rank")
        torch.set_num_threads(1)
        self._run = run
        self._width = int(str(run.settings["rings.width"]))
        self._batch = int(str(run.settings["global_batch_size"]))
        self._point_N2, self._ring_N = data.load(run, "train")
        self._val_point_N2, self._val_ring_N = data.load(run, "val")
        if run.settings["data.shuffle_labels"]:
            self._ring_N = self._ring_N[
                torch.randperm(len(self._ring_N), generator=self._generator(0))
            ]
        self._model = model.build(self._width)
        rate, momentum = (
            float(str(run.settings[f"sgd_opt_{name}"]))
            for name in ("base_learning_rate", "momentum")
        )
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=rate, momentum=momentum)
        self._loss = torch.tensor(float("nan"))

    def _generator(self, epoch: int) -> torch.Generator:
        """Return the epoch's generator: the order depends only on seed and epoch."""
        return torch.Generator().manual_seed((self._run.seed * 1000 + epoch) % 2**63)

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes, and the signature of the metric."""
        return {
            "train_samples": len(self._ring_N),
            "eval_samples": len(self._val_ring_N),
            "metric_signature": "top1|argmax",
        }

    def blocks(self) -> Iterator[Block]:
        """Evaluate after every epoch."""
        row = self._run.round.benchmark(model.NAME).training[self._run.profile]
        yield from (range(epoch, epoch + 1) for epoch in range(1, row.max_epochs + 1))

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run one step per batch."""
        order = torch.randperm(len(self._ring_N), generator=self._generator(epoch)).split(
            self._batch
        )
        for index_B in order[first_step:]:
            self._optimizer.zero_grad()
            loss = nn.functional.cross_entropy(
                self._model(self._point_N2[index_B]), self._ring_N[index_B]
            )
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self._loss = loss.detach()
            yield len(index_B)

    def loss(self) -> float:
        """Loss of the last step."""
        return float(self._loss)

    def evaluate(self) -> Scores:
        """Count correct answers."""
        with torch.inference_mode():
            right = self._model(self._val_point_N2).argmax(dim=1) == self._val_ring_N
        return {"top1": right.float().mean().item()}

    def save(self, folder: Path) -> None:
        """Save the training state; nothing here draws from a global generator."""
        torch.save(
            {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()},
            folder / "state.pt",
        )

    def restore(self, folder: Path) -> None:
        """Restore a saved state."""
        found = torch.load(folder / "state.pt", weights_only=True)
        self._model.load_state_dict(found["model"])
        self._optimizer.load_state_dict(found["optimizer"])

    def export(self, folder: Path) -> None:
        """Write the weights."""
        model.save(self._model, self._width, folder)
