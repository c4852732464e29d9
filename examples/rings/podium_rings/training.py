"""The maths of one run, on one rank."""

from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import torch
from torch import nn

from podium_rings import data, model, scoring, weights
from suite.errors import RequestError
from suite.rounds import HyperValue
from suite.workload import Block, Run, Scores
from workloads.common.optimisation.schedules import iterate_epoch_blocks
from workloads.common.run_request import require_run_training_row
from workloads.common.setting_values import require_number_setting, require_positive_setting

# Legend: B samples of a batch, N samples, K classes.


class RingsTraining:
    """Stochastic gradient descent on a few thousand samples."""

    def __init__(self, run: Run) -> None:
        if run.world_size > 1:
            raise RequestError("rings trains on one rank")
        torch.set_num_threads(run.threads)
        self._run = run
        self._width = require_positive_setting(run.settings, "rings.width")
        self._batch = require_positive_setting(run.settings, "global_batch_size")
        train, self._val = data.load(run, "train"), data.load(run, "val")
        self._input_NX, self._label_N = train.input_NX, train.label_N
        if run.settings["data.shuffle_labels"]:
            order = torch.randperm(len(self._label_N), generator=self._generator(0))
            self._label_N = self._label_N[order]
        self._built = {
            "width": self._width,
            "sizes": list(train.input_NX.shape[1:]),
            "outputs": train.outputs,
        }
        self._model = model.build(**self._built)
        self._optimizer = torch.optim.SGD(
            self._model.parameters(),
            lr=require_number_setting(run.settings, "sgd_opt_base_learning_rate"),
            momentum=require_number_setting(run.settings, "sgd_opt_momentum"),
        )
        self._loss = torch.tensor(float("nan"))

    def _generator(self, epoch: int) -> torch.Generator:
        """Return the epoch's generator: the order depends only on seed and epoch."""
        return torch.Generator().manual_seed((self._run.seed * 1000 + epoch) % 2**63)

    def facts(self) -> Mapping[str, HyperValue]:
        """Return the sizes, and the signature of the metric."""
        return {
            "train_samples": len(self._label_N),
            "eval_samples": len(self._val.label_N),
            "metric_signature": "rings|argmax",
        }

    def blocks(self) -> Iterator[Block]:
        """Yield the epochs between evaluations, as the row sets them."""
        return iterate_epoch_blocks(require_run_training_row(self._run, weights.NAME))

    def train_epoch(self, epoch: int, first_step: int = 0) -> Generator[int, None, None]:
        """Run one step per batch."""
        order = torch.randperm(len(self._label_N), generator=self._generator(epoch)).split(
            self._batch
        )
        for index_B in order[first_step:]:
            self._optimizer.zero_grad()
            logit_BK = self._model(self._input_NX[index_B])
            loss = nn.functional.cross_entropy(
                logit_BK.flatten(0, -2), self._label_N[index_B].flatten()
            )
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()
            self._loss = loss.detach()
            yield len(index_B)

    def loss(self) -> float:
        """Loss of the last step."""
        return float(self._loss)

    def evaluate(self) -> Scores:
        """Score the likeliest answers as the judge will."""
        self._model.eval()
        with torch.inference_mode():
            parts = [self._model(each).argmax(dim=-1) for each in self._val.input_NX.split(256)]
        self._model.train()
        answers = map(scoring.encode_answer, torch.cat(parts).tolist())
        labels = list(map(scoring.format_label, self._val.label_N.tolist()))
        return scoring.compare(dict(enumerate(answers)), labels)

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
        weights.save(self._model, folder, **self._built)
