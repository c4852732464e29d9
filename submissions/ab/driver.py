"""Measures an A/B: lock, signals, resume, the runs of both sides in turn, and what they say."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Final

import click

from submissions.ab.processes import (
    KnownSide,
    SideError,
    build_side_error,
    create_side_results,
    find_sentence,
    list_side_words,
    run_podium,
    run_side,
)
from submissions.ab.progress import AbProgress, begin_comparison
from submissions.ab.side_options import AskedComparison, build_ab_request
from suite.ab.answer import (
    AbAnswer,
    AbStep,
    describe_change,
    describe_ends,
    format_minutes,
)
from suite.ab.decision import AbVerdict
from suite.ab.sides import BLOCK_RUN, SIDES, TURNS, AbPoint, AbRequest, list_preparations
from suite.ab.study import AB
from suite.console.screen import print_progress_note
from suite.errors import JudgedError, RequestError, TemporaryError
from suite.files.layout import convert_to_slug
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.studies.documents import STUDIES_FOLDER, StudyMachine
from suite.studies.measured import (
    MeasuredStudy,
    describe_study,
    format_study_csv,
    read_measured_study,
)
from suite.units import S_PER_MINUTE

MAX_NAME_LENGTH: Final = 120
"""Characters of the study's folder; the record has all that the command says."""
FASTER: Final = "faster"
NOT_SLOWER: Final = "not-slower"
REQUIREMENTS: Final = (FASTER, NOT_SLOWER)
RUNS_PER_BLOCK: Final = len(TURNS)


def run_ab(
    asked: AskedComparison, *, output_format: str, require: str | None, dry_run: bool
) -> None:
    """Measure, print and save; JudgedError if B has lost accuracy or misses what is required of it,
    TemporaryError if it is not decided within the budget.
    """
    request = build_ab_request(asked)
    output = sys.stderr
    if output_format == "text":
        output = sys.stdout
    with redirect_stdout(output):
        if dry_run:
            try_sides(request, asked.options.results.absolute())
            return
        folder = asked.options.results.absolute() / STUDIES_FOLDER / name_study_folder(asked)
        with hold_results(asked.options.results, asked.workload):
            measure_sides(folder, request, asked.seed)
    study = read_measured_study(folder)
    print_comparison(study, folder, output_format)
    raise_outcome(study.answer, require)


def name_study_folder(asked: AskedComparison) -> str:
    """Return the name of the study's folder."""
    pythons = [str(each) for each in (asked.a_python, asked.b_python) if each]
    kind = "training" if asked.training else asked.scenario
    if asked.prompts:
        kind = f"{kind} own prompts"
    words = (asked.workload, "ab", *asked.a, "vs", *asked.b, *pythons, kind)
    return convert_to_slug(" ".join(words))[:MAX_NAME_LENGTH].strip("-._")


@contextmanager
def hold_results(results: Path, workload: str) -> Iterator[None]:
    """Lock the results folder; a signal says how the comparison continues."""
    try:
        with raise_signals_in_block(), lock_results_folder(results):
            yield
    except Interrupted as error:
        raise type(error)(
            f"{workload}: {error}; the runs that ended are kept, and the same command continues"
        ) from error


def measure_sides(folder: Path, request: AbRequest, seed: int | None) -> None:
    """Measure the runs that the plan asks for, and save after each.

    Args:
        folder: of the study.
        request: what is asked for, with a seed.
        seed: as the command names it; None: it was drawn.
    """
    progress = begin_comparison(folder, request)
    print_progress_note(f"{request.workload or 'own prompts'}: {AB.note}")
    if count := len(progress.runs):
        click.echo(
            f"continuing after {count} run{'s' * (count != 1)}; if a side has changed since, name"
            " another --results"
        )
    if seed not in (None, progress.request.seed):
        click.echo(
            f"--seed {seed} is not used: the comparison that is continued has the seed"
            f" {progress.request.seed}; for another order, name another --results"
        )
    while (point := progress.find_next_point()) is not None:
        measure_point(progress, point)
        print_point(progress, point)


def measure_point(progress: AbProgress, point: AbPoint) -> None:
    """Measure one run; PodiumError with the sentence and the exit code of its process."""
    results = progress.study_folder.parents[1]
    known = progress.find_known_side(point.side)
    began_s = time.monotonic()
    try:
        with run_side(progress.request, point, results, known) as child:
            progress.keep_run(child, point, time.monotonic() - began_s)
    except SideError as error:
        raise build_side_error(error, describe_place(point)) from error


def describe_place(point: AbPoint) -> str:
    """Say which run of which side it is."""
    side = f"side {point.side.upper()}"
    if point.run == BLOCK_RUN:
        return f"{side} failed in block {point.block}, run {point.turn} (what is measured is kept)"
    return f"{side} failed in its {point.run} run"


def print_point(progress: AbProgress, point: AbPoint) -> None:
    """Print what a run before the blocks says, or a block that is complete."""
    if point.run != BLOCK_RUN:
        run = progress.runs[-1]
        scores = ", ".join(f"{name} {value:.4f}" for name, value in run.figures.scores.items())
        told = scores if run.figures.rate is None else f"{run.figures.rate:,.1f} /s"
        click.echo(f"  {point.side.upper()} {point.run}: {told}, {run.seconds:.0f} s")
        return
    if point.turn == RUNS_PER_BLOCK:
        answer = AB.compute_answer([progress.request], progress.points)
        click.echo(f"  {describe_step(answer.steps[-1])}")


def describe_step(step: AbStep) -> str:
    """Describe a block, and what is known after it, in one line."""
    one, other = (", ".join(f"{each:,.1f}" for each in side) for side in (step.a, step.b))
    told = f"block {step.block} {step.order}: A {one}; B {other}; B/A {step.ratio:.3f}"
    if step.disturbed:
        return f"{told}; set aside: {step.disturbed}"
    return f"{told}; so far {describe_change(step.decision.ratio)} ({describe_ends(step.decision)})"


def print_comparison(study: MeasuredStudy, folder: Path, output_format: str) -> None:
    """Print a comparison in the requested form."""
    if output_format == "json":
        click.echo(json.dumps(describe_study(study), indent=2))
        return
    if output_format == "csv":
        click.echo(format_study_csv(study), nl=False)
        return
    table = AB.table.format_aligned_text(study.rows) if study.rows else "no block"
    told = AB.describe_answer(study.request, study.answer, study.points)
    told = [*told, *iterate_package_differences(study.record.machine)]
    click.echo("\n".join((table, *told, f"saved in {folder}")))


def iterate_package_differences(machine: StudyMachine) -> Iterator[str]:
    """Yield the packages in which the installations of two sides differ."""
    for name, version in machine.packages_of_b.items():
        yield f"{name}: {version} in B, {machine.packages.get(name, 'none')} in A"


def raise_outcome(answer: AbAnswer, require: str | None) -> None:
    """JudgedError for lost accuracy, or a required outcome that is not shown; TemporaryError for a
    comparison that is not decided.
    """
    if answer.lost:
        raise JudgedError(f"{answer.lost}; {answer.sentence}")
    if answer.verdict == AbVerdict.OPEN:
        raise TemporaryError(f"{answer.sentence}: repeat the command with more --minutes")
    is_missed = answer.verdict == AbVerdict.A_FASTER
    if require == FASTER:
        is_missed = answer.verdict != AbVerdict.B_FASTER
    if require is not None and is_missed:
        raise JudgedError(f"--require {require}: {answer.sentence}")


def try_sides(request: AbRequest, results: Path) -> None:
    """Let both sides answer one query, and say how many blocks the budget holds at least;
    PodiumError of a side that cannot run.
    """
    if request.a.endpoint:
        raise RequestError(
            "--dry-run says nothing about servers, which runs show in seconds; omit it"
        )
    took_s = 0.0
    for side in SIDES:
        point = next(each for each in list_preparations(request) if each.side == side)
        began_s = time.monotonic()
        with create_side_results(results) as home:
            words = list_side_words(request, point, KnownSide())
            words += ["--dry-run", "--results", str(home)]
            code, told = run_podium(request.get_side(side), words)
        if code:
            failed = SideError(code, find_sentence(told, code))
            raise build_side_error(failed, f"side {side.upper()}") from None
        took_s = max(took_s, time.monotonic() - began_s)
        print_progress_note(f"side {side.upper()} can run")
    block_s = RUNS_PER_BLOCK * (took_s + request.seconds)
    blocks = int(request.minutes * S_PER_MINUTE / block_s)
    click.echo(
        f"a block takes roughly {block_s:.0f} s; {format_minutes(request.minutes)} for about"
        f" {blocks} block{'s' * (blocks != 1)}"
    )
