"""The engine that `--engine auto` chose for a checkpoint, in
`<results>/.podium/<workload>/engine.json`. Later commands on the same results serve with it, so
that all scenarios are of one system.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from suite.files.json_files import write_json
from suite.files.layout import locate_state_folder
from suite.files.untrusted_files import UnreadableError, read_untrusted_file

CHOSEN_ENGINE_FILE: Final = "engine.json"


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a short trial of an engine measured."""

    latency_ns: float
    """Of one sample alone."""
    samples_per_second: float
    """In full batches."""


class ChosenEngine(msgspec.Struct, frozen=True, kw_only=True):
    """The engines that were tried, and what the choice among them depends on."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file is untrusted input."""
        if not all(each.latency_ns > 0 < each.samples_per_second for each in self.trials.values()):
            raise ValueError("an engine's figures are not above 0")
        if not self.trials:
            raise ValueError("it names no engine")

    trials: Mapping[str, EngineFigures]
    """Engine -> figures, of those that answer as well as the best one; the first, which is the
    fastest, was chosen.
    """
    basis: Mapping[str, str]
    """What the choice was made for; for anything else it is made anew."""

    @property
    def engine(self) -> str:
        """The engine that was chosen."""
        return next(iter(self.trials))


CHOSEN_ENGINE_DECODER: Final = msgspec.json.Decoder(ChosenEngine)


def locate_chosen_engine(results: Path, workload: str) -> Path:
    """Return the place of a workload's chosen engine."""
    return locate_state_folder(results, workload) / CHOSEN_ENGINE_FILE


def read_chosen_engine(results: Path, workload: str) -> ChosenEngine | None:
    """Return the engine that was chosen; None if none was, or the file is damaged."""
    try:
        return read_untrusted_file(
            locate_chosen_engine(results, workload), CHOSEN_ENGINE_DECODER.decode
        )
    except UnreadableError:
        return None


def write_chosen_engine(results: Path, workload: str, chosen: ChosenEngine) -> None:
    """Record the engine that was chosen."""
    path = locate_chosen_engine(results, workload)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, msgspec.to_builtins(chosen))
