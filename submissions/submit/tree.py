"""Builds a submission in a temporary folder, judges it by its round, lists what it lacks, and only
then puts it in place.
"""

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import escape
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, TypeVar

import click

from compliance.judge import Judge
from compliance.verdict import Finding
from submissions.submit.official import OfficialChecker, iterate_opinion_lines
from submissions.submit.shortfalls import (
    Shortfall,
    collect_shortfalls,
    count_missing,
    iterate_shortfall_lines,
    merge_shortfalls,
)
from suite import registry
from suite.errors import JudgedError, RequestError, build_unknown_name_error
from suite.files.layout import build_write_error
from suite.files.untrusted_files import UnreadableError, read_untrusted_toml

F = TypeVar("F")
SYSTEM_FILE_OPTION: Final = "--system-file"
INCOMPLETE_FILE: Final = "INCOMPLETE.md"
"""In a tree that lacks something: what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submission that can be built."""

    round: str
    title: str
    """What is submitted, in a few words."""
    root: str
    """Of the submission in the tree, which the official checker takes."""
    build: Callable[[Path], None]
    """Writes the files into a folder."""
    notes: Sequence[str] = ()
    """What podium cannot put into it, and what it chose."""
    unbuilt: Sequence[Shortfall] = ()
    """What is missing without a trace in the tree."""
    hints: Mapping[str, str] = field(default_factory=dict)
    """Rule -> which option mends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingOptions:
    """Where a submission goes, and what is asked of it."""

    target: Path
    incomplete: bool
    """Write it although something is missing."""
    checker: OfficialChecker | None
    """Whose verdict to print beside podium's."""


def write_submission(submission: Submission, options: WritingOptions) -> None:
    """Print what a submission lacks, then write it; JudgedError if something is missing, which
    leaves nothing written unless that was asked for.
    """
    require_new_folder(options.target)
    with create_folder_beside(options.target) as tree:
        try:
            submission.build(tree)
        except OSError as error:
            raise build_write_error(options.target, error) from error
        findings = judge_tree(tree, submission.round)
        judged = collect_shortfalls(findings, tree, submission.hints)
        found = merge_shortfalls([*submission.unbuilt, *judged])
        click.echo(f"{submission.title}, by the rules of {submission.round}")
        for note in submission.notes:
            click.echo(note)
        lines = [line for each in found for line in iterate_shortfall_lines(each)]
        click.echo("\n".join(lines or ["nothing is missing"]))
        if options.checker:
            said = options.checker.check_submission(tree / submission.root, submission.round)
            click.echo("\n".join(iterate_opinion_lines(findings, said, tree / submission.root)))
        missing = count_missing(found)
        if missing and not options.incomplete:
            raise JudgedError(
                f"{options.target}: not written, since {describe_count(missing)} missing;"
                " --incomplete writes it all the same"
            )
        if missing:
            (tree / INCOMPLETE_FILE).write_text(describe_incomplete(submission, lines))
        put_in_place(tree, options.target)
    click.echo(f"{options.target}: written")
    if missing:
        raise JudgedError(f"{options.target}: {describe_count(missing)} missing")


def describe_incomplete(submission: Submission, lines: Sequence[str]) -> str:
    """Describe a tree that is no submission: what it lacks."""
    listed = "\n".join(lines)
    return (
        f"# Not a submission to {submission.round}\n\n"
        f"podium wrote this tree although it lacks what the round asks for:\n\n```\n{listed}\n```\n"
    )


def describe_count(missing: int) -> str:
    """Say how many rules are not met."""
    if missing == 1:
        return "what 1 rule asks for is"
    return f"what {missing} rules ask for is"


def load_form(round_name: str, form_class: type[F]) -> F:
    """Load the form of a round's submissions; RequestError for an unknown round, and for one that
    podium writes no such submission to.
    """
    if round_name not in registry.list_round_names():
        raise build_unknown_name_error("round", round_name, registry.list_round_names())
    describe_form = registry.load_round_part(round_name, "form")
    form = describe_form(round_name) if describe_form else None
    if not isinstance(form, form_class):
        raise RequestError(f"--round: podium writes no such submission to {round_name}")
    return form


def build_no_result_error(
    path: Path, what: str, round_name: str, benchmarks: Collection[str]
) -> RequestError:
    """Say why nothing at a path can be submitted to a round: `what` names the kind of result,
    `benchmarks` those of that kind that are there.
    """
    if not path.exists():
        return RequestError(f"{path}: no such file or folder")
    if not benchmarks:
        return RequestError(f"{path}: no {what} of podium in it")
    half = round_name.partition("-v")[0]
    return RequestError(
        f"{path}: no {what} of {round_name}: {', '.join(benchmarks)};"
        f"{list_other_rounds(half, benchmarks)}"
    )


def list_other_rounds(half: str, benchmarks: Collection[str]) -> str:
    """Say which rounds of a half (`training`, `inference`) have some of these benchmarks."""
    found = []
    for name in registry.list_round_names():
        if name.startswith(f"{half}-v"):
            describe_form = registry.load_round_part(name, "form")
            if describe_form and any(map(describe_form(name).has_benchmark, benchmarks)):
                found.append(name)
    return f" rounds that have some of them: {', '.join(found) or 'none'}"


def judge_tree(tree: Path, round_name: str) -> tuple[Finding, ...]:
    """Judge a tree by a round."""
    return Judge(round_name).judge_path(str(tree)).findings


def require_new_folder(target: Path) -> None:
    """RequestError for a path that has content, or that no folder can be made at."""
    if target.is_dir() and not any(target.iterdir()):
        return
    if os.path.lexists(target):
        raise RequestError(f"-o {target}: exists; name a new folder")
    if not target.parent.is_dir():
        raise RequestError(f"-o {target}: folder {target.parent} does not exist")


@contextmanager
def create_folder_beside(target: Path) -> Iterator[Path]:
    """Create a temporary folder on the disk of a path, and remove it at the end, and what a killed
    command has left there before.
    """
    parent, prefix = target.parent.resolve(), f".{target.name}-"
    for left in parent.glob(f"{escape(prefix)}*"):
        shutil.rmtree(left, ignore_errors=True)
    try:
        folder = Path(mkdtemp(dir=parent, prefix=prefix))
    except OSError as error:
        raise build_write_error(target, error) from error
    try:
        (folder / target.name).mkdir()
        yield folder / target.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def put_in_place(tree: Path, target: Path) -> None:
    """Rename a finished tree to its name."""
    try:
        tree.replace(target)
    except OSError as error:
        raise build_write_error(target, error) from error


def read_stated_tables(path: Path | None, known: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Read the tables of `--system-file`, each empty that is not there; RequestError for any other
    name, and for values that JSON does not have.
    """
    tables: dict[str, Any] = {}
    if path is not None:
        try:
            tables = read_untrusted_toml(path)
            json.dumps(tables, allow_nan=False)
        except UnreadableError as error:
            raise RequestError(f"{SYSTEM_FILE_OPTION} {error}") from error
        except (TypeError, ValueError) as error:  # dates and infinite numbers
            raise RequestError(
                f"{SYSTEM_FILE_OPTION} {path}: not a JSON value: {error}; write dates as texts"
            ) from error
    for name, value in tables.items():
        if name not in known or not isinstance(value, dict):
            listed = ", ".join(f"[{each}]" for each in known)
            raise RequestError(
                f"{SYSTEM_FILE_OPTION} {path}: {name} is none of the tables {listed}"
            )
    return {name: tables.get(name, {}) for name in known}


def refuse_stated_facts(stated: Mapping[str, Any], known: Mapping[str, Any], table: str) -> None:
    """RequestError for a field that podium measured: nobody else states it."""
    for name in stated:
        if name in known:
            raise RequestError(
                f"{SYSTEM_FILE_OPTION}: [{table}] {name}: podium has it from the run"
                f" ({known[name]}); leave it out"
            )


def copy_files(source: Path, names: Sequence[str], target: Path) -> None:
    """Copy those files that are in a folder, byte for byte."""
    found = [source / name for name in names if (source / name).is_file()]
    if found:
        target.mkdir(parents=True, exist_ok=True)
    for each in found:
        shutil.copyfile(each, target / each.name)


def copy_given_folder(option: str, source: Path, target: Path) -> None:
    """Copy a folder that the user named; RequestError if it is none, or has links."""
    if not source.is_dir():
        raise RequestError(f"{option} {source}: is not a folder")
    for folder, folders, files in os.walk(source):
        for name in (*folders, *files):
            if Path(folder, name).is_symlink():
                raise RequestError(
                    f"{option} {Path(folder, name)}: is a link; a submission has none"
                )
    shutil.copytree(source, target)
