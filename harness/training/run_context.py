"""Context shared by all runs of a training set."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.distributed import Ranks, Watch
from harness.request import Request
from harness.training.set_state import state_of
from suite.files.layout import Entry
from suite.process.launcher import from_environment
from suite.process.signals import Signals
from suite.rounds import HyperValue, TrainingRow
from suite.terms import Precision
from suite.workload import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A request to train, with the ranks that work on it."""

    request: Request
    row: TrainingRow
    hyper: Mapping[str, HyperValue]
    """Hyper-parameters as the log has them."""
    precision: Precision
    entry: Entry
    """Where the results belong."""
    place: Entry
    """Where they are made: at `entry`, or beside an earlier set that stays until this one is whole."""
    system: Mapping[str, Any]
    """The system description."""
    threads: int
    """CPU threads of each rank."""
    ranks: Ranks
    watch: Watch | None
    signals: Signals

    @property
    def name(self) -> str:
        """The workload's name."""
        return self.request.name

    def log_path(self, index: int) -> Path:
        """Say where the log of a run lies."""
        return self.place.training_log(self.request.row.training_name, index)

    def telemetry_path(self, index: int) -> Path:
        """Say where the telemetry of a run on this node lies."""
        return self.place.training_telemetry(self.request.row.training_name, index, from_environment("GROUP_RANK", 0))

    def state(self, index: int) -> Path:
        """Say where the state of an unfinished run lies."""
        return state_of(self.place.results, self.name, index)

    def run(self, seed: int) -> Run:
        """Make the record that the workload is told."""
        run = self.request.run(seed, self.precision, self.ranks.rank, self.ranks.local_rank, self.ranks.world_size)
        return replace(run, threads=self.threads)

    def identity(self) -> dict[str, Any]:
        """Name what has to be the same for an unfinished run to go on (JSON types)."""
        run, data = self.run(0), self.request.options.data
        return {
            "round": self.request.round.name,
            "profile": self.request.profile.value,
            "org": self.entry.org,
            "system": self.entry.system,
            "framework": run.framework,
            "input": run.input,
            "data": str(data.absolute()) if data else None,
            "device": run.device,
            "precision": self.precision.value,
            "threads": run.threads,
            "world_size": run.world_size,
            **{f"setting {key}": list(value) if isinstance(value, tuple) else value for key, value in sorted(run.settings.items())},
        }
