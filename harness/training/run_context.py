"""Context shared by all runs of a run set."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.distributed import Ranks, RankWatch
from harness.machine.power.chosen import ChosenPower
from harness.request import RunRequest
from harness.training.request import TrainingRequest
from harness.training.state.set_state import get_run_state_folder
from suite.files.layout import ResultsEntry
from suite.ledger.book import Ledger, build_ledger
from suite.process.launcher import read_launcher_variable
from suite.process.signals import Signals
from suite.workload import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingContext:
    """A training request and its ranks: all that a training is built from."""

    training: TrainingRequest
    ranks: Ranks

    @property
    def request(self) -> RunRequest:
        """Return the request that trains and serves share."""
        return self.training.request

    @property
    def name(self) -> str:
        """Return the workload's name."""
        return self.request.name


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob(TrainingContext):
    """The same, with where and how a set of runs is kept."""

    working_entry: ResultsEntry
    """Where the results are written: their final place, or a staging folder while an earlier set
    stays until this one is complete.
    """
    threads: int
    """CPU threads of each rank."""
    watch: RankWatch | None
    signals: Signals
    power: ChosenPower = ChosenPower()
    """Power sources that the sampler reads on this node."""

    @property
    def entry(self) -> ResultsEntry:
        """Return the final place of the results."""
        return self.training.entry

    @property
    def ledger(self) -> Ledger:
        """Return the ledger of all attempts."""
        return build_ledger(self.entry, self.name, self.request.row)

    def get_log_path(self, index: int) -> Path:
        """Return the path of a run's log."""
        return self.working_entry.locate_training_log(self.request.row.training_name, index)

    def get_telemetry_path(self, index: int) -> Path:
        """Return the path of a run's telemetry on this node."""
        return self.working_entry.locate_training_telemetry(
            self.request.row.training_name, index, read_launcher_variable("GROUP_RANK", 0)
        )

    def get_state_folder(self, index: int) -> Path:
        """Return the folder of an unfinished run's state."""
        return get_run_state_folder(self.working_entry.results, self.name, index)

    def build_run(self, seed: int) -> Run:
        """Build the run record that the workload receives."""
        run = self.request.build_run(
            seed,
            self.request.precision,
            self.ranks.rank,
            self.ranks.local_rank,
            self.ranks.world_size,
        )
        return replace(run, threads=self.threads)

    def collect_identity(self) -> dict[str, Any]:
        """Return what must match to resume an unfinished run (JSON types)."""
        run, data = self.build_run(0), self.request.options.data
        return {
            "round": self.request.round.name,
            "profile": self.request.profile.value,
            "org": self.entry.org,
            "system": self.entry.system,
            "framework": run.framework,
            "input": run.input,
            "data": str(data.absolute()) if data else None,
            "device": run.device,
            "precision": self.request.precision.value,
            "threads": run.threads,
            "world_size": run.world_size,
            **{
                f"setting {key}": list(value) if isinstance(value, tuple) else value
                for key, value in sorted(run.settings.items())
            },
        }
