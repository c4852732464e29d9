"""What all trainings do alike whose steps a Stepper takes (suite.workload, Training)."""

from collections.abc import Iterator
from pathlib import Path

import torch

from suite.workload import Block, Run
from workloads.common import malloc
from workloads.common.optimisation import mixed_precision
from workloads.common.optimisation.schedules import iterate_epoch_blocks
from workloads.common.optimisation.step import Stepper
from workloads.common.run_request import require_run_training_row


class SteppedTraining:
    """The part of a Training that does not depend on what is learnt; a class that inherits it adds
    its stepper, `facts`, `train_epoch`, `evaluate` and `export`.
    """

    _stepper: Stepper

    def __init__(self, run: Run, name: str) -> None:
        mixed_precision.prepare_training_precision(run.device, run.precision)
        malloc.keep_freed_memory()
        torch.set_num_threads(run.threads)
        self._run, self._row = run, require_run_training_row(run, name)
        self._device = torch.device(run.device)

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of epochs between evaluations, as the round's row sets them."""
        return iterate_epoch_blocks(self._row)

    def loss(self) -> float:
        """Mean loss over this rank's samples in the last step; NaN before the first."""
        return self._stepper.compute_mean_loss()

    def save(self, folder: Path) -> None:
        """Save the state; every rank calls this, since each has its own generators and, until they
        are averaged, its own batch-norm statistics.
        """
        self._stepper.save(folder)

    def restore(self, folder: Path) -> None:
        """Restore a saved state."""
        self._stepper.restore(folder)
