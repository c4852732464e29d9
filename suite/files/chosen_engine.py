"""The engines that `--engine auto` chose for a checkpoint, in
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


MAX_KEPT_CHOICES: Final = 64
"""Choices for other precisions, threads or settings stay, and the oldest go."""


class EngineFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a short trial of an engine measured: its fastest calls."""

    latency_ns: float
    """Of one sample alone."""
    samples_per_second: float
    """In full batches."""

    @property
    def slowness(self) -> float:
        """The product of the time of one sample alone, in ns, and in full batches, in s."""
        return self.latency_ns / self.samples_per_second


class ChosenEngine(msgspec.Struct, frozen=True, kw_only=True):
    """The engines that were tried, and what the choice among them depends on."""

    def __post_init__(self) -> None:
        """Refuse what no command writes: the file is untrusted input."""
        if not all(each.latency_ns > 0 < each.samples_per_second for each in self.trials.values()):
            raise ValueError("an engine's figures are not above 0")
        if not self.trials:
            raise ValueError("it names no engine")

    trials: Mapping[str, EngineFigures]
    """Engine -> figures, of those that answer as well as the best one."""
    basis: Mapping[str, str]
    """What the choice was made for; for anything else another is made."""

    @property
    def engine(self) -> str:
        """The engine that was chosen: the fastest."""
        return next(iter(self.rank_trials()))

    def rank_trials(self) -> dict[str, EngineFigures]:
        """Return the figures, the fastest engine first: JSON keeps no order."""
        return dict(sorted(self.trials.items(), key=lambda each: (each[1].slowness, each[0])))


CHOSEN_ENGINES_DECODER: Final = msgspec.json.Decoder(tuple[ChosenEngine, ...])


def locate_chosen_engines(results: Path, workload: str) -> Path:
    """Return the place of a workload's chosen engines."""
    return locate_state_folder(results, workload) / CHOSEN_ENGINE_FILE


def read_chosen_engines(results: Path, workload: str) -> tuple[ChosenEngine, ...]:
    """Return the choices that were made, the newest last; none if the file is damaged."""
    try:
        return read_untrusted_file(
            locate_chosen_engines(results, workload), CHOSEN_ENGINES_DECODER.decode
        )
    except UnreadableError:
        return ()


def write_chosen_engine(results: Path, workload: str, chosen: ChosenEngine) -> None:
    """Record a choice beside those for anything else."""
    path = locate_chosen_engines(results, workload)
    path.parent.mkdir(parents=True, exist_ok=True)
    others = [each for each in read_chosen_engines(results, workload) if each.basis != chosen.basis]
    write_json(path, msgspec.to_builtins([*others, chosen][-MAX_KEPT_CHOICES:]))
