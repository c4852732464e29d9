"""Resuming a run set: which set, with which options, and the command that resumes it."""

import os
import shlex
from collections.abc import Collection
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import msgspec

from harness.distributed import Ranks
from harness.training.run_context import TrainingJob
from harness.training.state import set_state
from harness.training.state.set_state import TrainingSetState
from suite.cli import RunOptions
from suite.console.options import DEFAULT_RESULTS
from suite.errors import RequestError
from suite.files.layout import ResultsEntry
from suite.rounds import Division


def resolve_resumed_options(
    workload: str, options: RunOptions, given: Collection[str]
) -> RunOptions:
    """Return the options of an unfinished set, overridden by those that the user typed now."""
    entry = ResultsEntry(
        results=options.results.absolute(), division=Division.OPEN, org=options.org, system="any"
    )
    found = set_state.find_staged_or_placed_set(entry, workload)
    if found is None or not found[1].options:
        return options
    try:
        stored = msgspec.convert(
            {**asdict(options), **found[1].options},
            RunOptions,
            dec_hook=lambda kind, value: kind(value),
        )
    except (msgspec.ValidationError, TypeError, ValueError) as error:
        raise RequestError(
            f"--resume: the options that the set was started with cannot be read ({error}); start"
            " anew without --resume"
        ) from error
    return replace(stored, **{name: getattr(options, name) for name in {"results", *given}})


def format_resume_command(ranks: Ranks, workload: str, options: RunOptions) -> str:
    """Return the command that resumes a set; it reads its other options from the set."""
    if options.results != DEFAULT_RESULTS:
        results = ["--results", str(options.results)]
    else:
        results = []
    words = shlex.join(["train", workload, *results, "--resume"])
    if ranks.world_size == 1:
        return f"`podium {words}`"
    return f"start {ranks.world_size} ranks again with `-m harness {words}`"


def resume_unfinished_set(
    job: TrainingJob, seed: int | None, runs: int | None
) -> tuple[ResultsEntry, TrainingSetState] | None:
    """Find the set to resume, check that it began with the same request, and record the launcher
    that resumes it.
    """
    found = find_resumable_set(job.entry, job.name, job.ranks.restarts)
    if found is None:
        return None
    place, campaign = found
    set_state.check_same_request(campaign, job.collect_identity(), seed)
    campaign = replace(
        campaign, launch=identify_launcher(), runs=campaign.runs if runs is None else runs
    )
    set_state.write_set_state(place.results, job.name, campaign)
    return place, campaign


def find_resumable_set(
    entry: ResultsEntry, workload: str, restarts: int
) -> tuple[ResultsEntry, TrainingSetState] | None:
    """Find the newest set; after a restart by the launcher, not one that was finished before this
    launch.
    """
    found = set_state.find_staged_or_placed_set(entry, workload)
    if found is None or (restarts and found[1].is_over and found[1].launch != identify_launcher()):
        return None
    return found


def find_resumed_thread_count(entry: ResultsEntry, workload: str, restarts: int) -> int:
    """Return the CPU threads per rank of the set to resume; 0 if there is none, or it does not
    record them.
    """
    found = find_resumable_set(entry, workload, restarts)
    threads = found[1].identity.get("threads") if found else None
    return threads if isinstance(threads, int) else 0


def identify_launcher() -> str:
    """Identify the launcher that started this rank; "" if none did. It outlives its ranks."""
    own = [
        os.environ.get(name, "") for name in ("TORCHELASTIC_RUN_ID", "MASTER_ADDR", "MASTER_PORT")
    ]
    if own[0]:
        return "/".join([*own, str(os.getppid())])
    return ""


def convert_options_to_json(options: RunOptions) -> dict[str, Any]:
    """Convert a command's options to JSON types, with absolute paths; without the results folder,
    in which they are stored.
    """
    plain = {
        name: str(value.absolute()) if isinstance(value, Path) else value
        for name, value in asdict(options).items()
        if name != "results"
    }
    return cast("dict[str, Any]", msgspec.to_builtins(plain))
