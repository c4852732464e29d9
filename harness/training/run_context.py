"""Context shared by all runs of a training set."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.distributed import Ranks, Watch
from harness.machine.power.chosen import Chosen
from harness.request import Request
from harness.training.state.set_state import state_of
from suite.files.layout import Entry
from suite.ledger.book import Ledger, ledger_of
from suite.process.launcher import from_environment
from suite.process.signals import Signals
from suite.rounds import HyperValue, TrainingRow
from suite.terms import Precision
from suite.workload import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A training request and its ranks."""

    request: Request
    row: TrainingRow
    hyper: Mapping[str, HyperValue]
    """Hyper-parameters as logged."""
    precision: Precision
    entry: Entry
    """Final place of the results."""
    place: Entry
    """Where they are written: `entry`, or a staging folder while an earlier set stays until this
    one is complete.
    """
    system: Mapping[str, Any]
    """The system description."""
    threads: int
    """CPU threads of each rank."""
    ranks: Ranks
    watch: Watch | None
    signals: Signals
    power: Chosen = Chosen()
    """Power sources that the sampler reads on this node."""

    @property
    def name(self) -> str:
        """Return the workload's name."""
        return self.request.name

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of all attempts."""
        return ledger_of(self.entry, self.name, self.request.row)

    def log_path(self, index: int) -> Path:
        """Return the path of a run's log."""
        return self.place.training_log(self.request.row.training_name, index)

    def telemetry_path(self, index: int) -> Path:
        """Return the path of a run's telemetry on this node."""
        return self.place.training_telemetry(
            self.request.row.training_name, index, from_environment("GROUP_RANK", 0)
        )

    def state(self, index: int) -> Path:
        """Return the folder of an unfinished run's state."""
        return state_of(self.place.results, self.name, index)

    def run(self, seed: int) -> Run:
        """Build the run record that the workload receives."""
        run = self.request.run(
            seed, self.precision, self.ranks.rank, self.ranks.local_rank, self.ranks.world_size
        )
        return replace(run, threads=self.threads)

    def identity(self) -> dict[str, Any]:
        """Return what must match to resume an unfinished run (JSON types)."""
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
            **{
                f"setting {key}": list(value) if isinstance(value, tuple) else value
                for key, value in sorted(run.settings.items())
            },
        }
