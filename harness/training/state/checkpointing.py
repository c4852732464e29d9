"""Checkpoints of an unfinished training run: its position, and how it resumes after an
interruption.

A checkpoint is a folder `at_<n>` with the files of `Training.save` and `position.json`. It is
written under a
`.partial` name while the previous one still exists, so a kill at any moment leaves a complete one.
"""

import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from harness.distributed import Ranks
from harness.training.mllog_writer import MllogWriter
from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.layout import PARTIAL_SUFFIX, sync_to_disk
from suite.files.untrusted_files import UnreadableError, parse_digits, read_untrusted_file
from suite.process.signals import Interrupted, Signals
from suite.workload import Block, Training

POSITION_FILE: Final = "position.json"
DUE_CHECK_PERIOD_S: Final = (
    1.0  # how often ranks agree on whether a checkpoint is due; each time costs one exchange
)


class EpochPhase(StrEnum):
    """Progress within the position's epoch."""

    INSIDE = "inside"
    """`step` of its steps are done; epoch_start is logged."""
    TRAINED = "trained"
    """epoch_stop is logged."""
    EVALUATED = "evaluated"
    """eval_stop is logged; the epoch was the last of its block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPosition:
    """A point of a run at which all state is consistent."""

    epoch: int = 0
    step: int = 0
    samples: int = 0
    """Samples of the epoch that are done."""
    earlier_samples: int = 0
    """Samples of all complete epochs."""
    phase: EpochPhase = EpochPhase.EVALUATED
    log_offset: int = 0
    """Log size in bytes at this point: later lines are void once the run resumes from here."""
    run_start_ms: int = 0
    scores: Mapping[str, float] = field(default_factory=dict)
    """Scores of the last evaluation."""
    loss: float | None = None
    """Loss of the last step inside an epoch: a run that goes on behind an epoch's last step takes
    none that could tell it.
    """

    def iterate_remaining_blocks(self, blocks: Iterable[Block]) -> Iterator["RemainingBlock"]:
        """Yield the remaining parts of the blocks."""
        for block in blocks:
            if self.epoch not in block:
                if block.start > self.epoch:
                    yield RemainingBlock(
                        block=block, fresh=True, epochs=tuple((epoch, 0, 0) for epoch in block)
                    )
            elif self.phase is not EpochPhase.EVALUATED:
                epochs = tuple((epoch, 0, 0) for epoch in block if epoch > self.epoch)
                if self.phase is EpochPhase.INSIDE:
                    epochs = ((self.epoch, self.step, self.samples), *epochs)
                yield RemainingBlock(block=block, fresh=False, epochs=epochs)


POSITION_DECODER: Final = msgspec.json.Decoder(TrainingPosition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingBlock:
    """The remaining part of one block."""

    block: Block
    fresh: bool
    """block_start is not logged yet."""
    epochs: tuple[tuple[int, int, int], ...]
    """(epoch, steps done, samples done)."""


class CheckpointKeeper:
    """Keeps a run's checkpoints in a folder; all ranks call every method together.

    After a signal it saves at the next point at which all state is consistent, and raises the
    signal there.
    """

    def __init__(
        self, folder: Path, log: MllogWriter, ranks: Ranks, signals: Signals, interval_s: float
    ) -> None:
        """Find the checkpoints in the folder; `interval_s` is the time between two checkpoints
        inside an epoch.
        """
        self._folder, self._log, self._ranks, self._signals, self._interval_s = (
            folder,
            log,
            ranks,
            signals,
            interval_s,
        )
        self._number: int = ranks.share_value(max(list_checkpoint_numbers(folder), default=0))
        self._countdown = 0
        self._saved_s = self._looked_s = time.monotonic()
        self._stride = 1

    def restore(self, training: Training) -> TrainingPosition:
        """Restore a training from the newest checkpoint and return its position; the beginning if
        there is none.
        """
        if not self._number:
            return TrainingPosition()
        folder = self._folder / f"at_{self._number}"
        try:
            position = read_untrusted_file(folder / POSITION_FILE, POSITION_DECODER.decode)
        except UnreadableError as error:
            raise RequestError(
                f"{folder}: the checkpoint is unreadable ({POSITION_FILE}: {error.reason}); start a"
                " new run without --resume"
            ) from error
        if self._ranks.leads and position.log_offset > self._log.offset:
            raise RequestError(
                f"{self._log.partial} is shorter than at the time of the checkpoint; start a new"
                " run without --resume"
            )
        training.restore(folder)
        return position

    def save_if_due_in_epoch(
        self, training: Training, epoch: int, step: int, samples: int, position: TrainingPosition
    ) -> None:
        """After each step: save if the interval has passed, or a signal came. Ranks check that
        together, about once a second.
        """
        self._countdown -= 1
        if self._countdown > 0 and (self._ranks.world_size > 1 or self._signals.received is None):
            return
        due, stopped, self._countdown = self._ranks.share_value(
            (self._is_due(), self._describe_signal(), self._compute_steps_to_check())
        )
        if due or stopped:
            loss = self._ranks.share_value(training.loss() if self._ranks.leads else 0.0)
            inside = replace(
                position,
                epoch=epoch,
                step=step,
                samples=samples,
                phase=EpochPhase.INSIDE,
                log_offset=self._log.offset,
                loss=loss if math.isfinite(loss) else None,
            )
            self.save(training, inside)
        if stopped:
            self._raise_signal(stopped, f"saved in epoch {epoch}, after step {step}")

    def save_if_due_after_epoch(
        self, training: Training, position: TrainingPosition, *, always: bool = False
    ) -> None:
        """Between epochs, and after an evaluation: save if the interval has passed, a signal came,
        or `always`.

        The next look comes after the first step: those of a new epoch may last longer than the last
        ones (games, then optimizer steps).
        """
        due, stopped = self._ranks.share_value((self._is_due(), self._describe_signal()))
        if due or stopped or always:
            self.save(training, position)
        if stopped:
            self._raise_signal(stopped, f"saved after epoch {position.epoch}")
        self._reset_countdown()

    @contextmanager
    def save_on_signal(self, training: Training, position: TrainingPosition) -> Iterator[None]:
        """Keep the state at `position` while the block runs an evaluation: a signal need not wait
        for its
        end.

        With several ranks it does: they must leave an evaluation together.
        """
        if self._ranks.world_size > 1:
            yield
            return
        try:
            with self._signals.raise_at_once():
                yield
        except Interrupted as error:
            self.save(training, position)
            self._raise_signal(
                str(error), f"saved after epoch {position.epoch}, before its evaluation"
            )

    def _raise_signal(self, sentence: str, saved: str) -> NoReturn:
        raise type(self._signals.received or Interrupted())(f"{sentence}; {saved}")

    def _is_due(self) -> bool:
        return time.monotonic() - self._saved_s >= self._interval_s

    def _describe_signal(self) -> str:
        return str(self._signals.received or "")

    def _compute_steps_to_check(self) -> int:
        now = time.monotonic()
        step_s = max((now - self._looked_s) / self._stride, 1e-9)
        self._looked_s = now
        self._stride = max(1, math.floor(min(DUE_CHECK_PERIOD_S, self._interval_s / 10) / step_s))
        return self._stride

    def save(self, training: Training, position: TrainingPosition) -> None:
        """Write a checkpoint, sync it, give it its final name, and remove the previous one."""
        self._number += 1
        folder = self._folder / f"at_{self._number}"
        partial = folder.with_name(folder.name + PARTIAL_SUFFIX)
        if self._ranks.leads:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        self._ranks.wait_for_ranks()
        training.save(partial)
        self._ranks.wait_for_ranks()
        if self._ranks.leads:
            self._log.sync_log()
            write_json(partial / POSITION_FILE, msgspec.to_builtins(position))
            commit_checkpoint_folder(partial, folder)
            self.remove_checkpoints(before=self._number)
        self._saved_s = time.monotonic()
        self._reset_countdown()

    def _reset_countdown(self) -> None:
        self._looked_s = time.monotonic()
        self._countdown = self._stride = 1

    def remove_checkpoints(self, before: int | None = None) -> None:
        """Remove checkpoints: those before a number, or all."""
        for number in list_checkpoint_numbers(self._folder):
            if before is None or number < before:
                shutil.rmtree(self._folder / f"at_{number}")


def list_checkpoint_numbers(folder: Path) -> list[int]:
    """Return the numbers of the complete checkpoints in a folder."""
    found = (parse_digits(path.name.removeprefix("at_")) for path in folder.glob("at_*"))
    return sorted(number for number in found if number is not None)


def commit_checkpoint_folder(partial: Path, folder: Path) -> None:
    """Sync a folder with all its files and give it its final name."""
    for path in (*(path for path in partial.rglob("*") if path.is_file()), partial):
        sync_to_disk(path)
    partial.rename(folder)
    sync_to_disk(folder.parent)
