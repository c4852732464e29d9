"""What a dry run finds (`--dry-run` of train, infer and run): how long the command will take, and
how much memory and disk it needs. All of it is estimated from a few steps, and said to be.
"""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from suite.console.screen import get_output_level
from suite.errors import MissingError, RequestError
from suite.files.cache import check_folder_writable
from suite.files.layout import DISK_FULL_ERRORS, find_existing_parent
from suite.units import S_PER_HOUR, S_PER_MINUTE

BYTES_PER_GB: Final = 1_000_000_000
BYTES_PER_MB: Final = 1_000_000
LONGEST_IN_SECONDS_S: Final = 90.0
"""Longer durations are given in minutes, ..."""
LONGEST_IN_MINUTES_S: Final = 90.0 * S_PER_MINUTE
"""... and those above this in hours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEstimate:
    """What one part of a command will take."""

    name: str
    seconds: float | None
    """None: it could not be estimated, and `basis` says why."""
    most_seconds: float | None = None
    """Where the work may end earlier or later: the most that it can take."""
    basis: str
    """What the seconds were computed from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRunEstimate:
    """What a command will take."""

    workload: str
    stages: Sequence[StageEstimate]
    memory_bytes: int
    """Of all processes together, at the highest point of the dry run."""
    free_memory_bytes: int
    """What was free before it."""
    disk_bytes: int
    """Of results and state in the results folder, at most at a time."""

    @property
    def seconds(self) -> float | None:
        """The sum of all parts; None if one of them could not be estimated."""
        parts = [stage.seconds for stage in self.stages if stage.seconds is not None]
        if len(parts) == len(self.stages):
            return sum(parts)
        return None

    @property
    def most_seconds(self) -> float | None:
        """The most that all parts can take; None if one of them could not be estimated."""
        total = self.seconds
        extra = [
            stage.most_seconds - (stage.seconds or 0)
            for stage in self.stages
            if stage.most_seconds is not None
        ]
        if total is None or not extra:
            return None
        return total + sum(extra)


def join_estimates(estimates: Sequence[DryRunEstimate]) -> DryRunEstimate:
    """Join the estimates of a command's steps, which run one after the other."""
    return DryRunEstimate(
        workload=estimates[0].workload,
        stages=[stage for each in estimates for stage in each.stages],
        memory_bytes=max(each.memory_bytes for each in estimates),
        free_memory_bytes=estimates[0].free_memory_bytes,
        disk_bytes=sum(each.disk_bytes for each in estimates),
    )


def refuse_dry_options(**given: bool) -> None:
    """Refuse options that a dry run says nothing about; RequestError names the first of them."""
    if option := next((name for name, value in given.items() if value), None):
        raise RequestError(
            f"--dry-run says nothing about --{option.replace('_', '-')}; omit one of the two"
        )


def check_results_writable(results: Path) -> None:
    """Raise RequestError or, on a full disk, MissingError if results cannot be written."""
    try:
        check_folder_writable(results)
    except OSError as error:
        full = error.errno in DISK_FULL_ERRORS
        reason = f"--results {results}: {error.strerror}"
        raise (MissingError if full else RequestError)(reason) from error


def report_estimate(estimate: DryRunEstimate, results: Path) -> DryRunEstimate:
    """Print what a command will take, unless it is a step of another one, and return it.

    MissingError if the memory or the disk is too small.
    """
    if not get_output_level().inner:
        click.echo("\n".join(format_estimate(estimate, results)))
        check_room(estimate, results)
    return estimate


def format_estimate(estimate: DryRunEstimate, results: Path) -> list[str]:
    """Format an estimate as lines for the terminal."""
    name, total = estimate.workload, estimate.seconds
    lines = [
        f"{name}: {stage.name}, estimated: {format_stage_time(stage)}; {stage.basis}"
        for stage in estimate.stages
    ]
    if len(estimate.stages) > 1:
        whole = "unknown"
        if total is not None:
            whole = f"about {format_duration(total)}"
        most = estimate.most_seconds
        limit = ""
        if most is not None:
            limit = f", at most {format_duration(most)}"
        lines.append(f"{name}: the whole, estimated: {whole}{limit}")
    lines.append(
        f"{name}: memory, estimated: {format_bytes(estimate.memory_bytes)} of"
        f" {format_bytes(estimate.free_memory_bytes)} that are free; disk, estimated:"
        f" {format_bytes(estimate.disk_bytes)} of {format_bytes(read_free_disk(results))}"
    )
    lines.append(
        f"{name}: this was a dry run: nothing was written to {results}; podium's cache keeps"
        " the survey of the data, embedded data and networks of trained weights"
    )
    return lines


def format_stage_time(stage: StageEstimate) -> str:
    """Format how long a part takes, and how long at most."""
    if stage.seconds is None:
        return "unknown"
    limit = ""
    if stage.most_seconds is not None:
        limit = f", at most {format_duration(stage.most_seconds)}"
    return f"about {format_duration(stage.seconds)}{limit}"


def format_duration(seconds: float) -> str:
    """Format seconds in a unit that a person would choose."""
    if seconds < LONGEST_IN_SECONDS_S:
        return f"{seconds:.0f} s"
    if seconds < LONGEST_IN_MINUTES_S:
        return f"{seconds / S_PER_MINUTE:.1f} minutes"
    return f"{seconds / S_PER_HOUR:,.1f} hours"


def format_bytes(count: int) -> str:
    """Format bytes in GB, or in MB below a tenth of one."""
    if count < BYTES_PER_GB / 10:
        return f"{count / BYTES_PER_MB:.1f} MB"
    return f"{count / BYTES_PER_GB:,.1f} GB"


def read_free_disk(results: Path) -> int:
    """Return the free bytes of the disk that holds the results."""
    return shutil.disk_usage(find_existing_parent(results.absolute())).free


def check_room(estimate: DryRunEstimate, results: Path) -> None:
    """Raise MissingError if this machine has too little memory or disk for the command."""
    for what, needed, free in (
        ("memory", estimate.memory_bytes, estimate.free_memory_bytes),
        ("disk", estimate.disk_bytes, read_free_disk(results)),
    ):
        if needed > free:
            raise MissingError(
                f"{estimate.workload}: too little {what}: {format_bytes(needed)} estimated,"
                f" {format_bytes(free)} free"
            )
