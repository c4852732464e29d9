"""Scores: the olympic mean of minutes per run set, the metric of each scenario; one row per
set.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import click

from compliance.judge import Judge
from compliance.results.indexed_result import IndexedResult
from compliance.results.machine import build_machine
from compliance.verdict import UNKNOWN_ROUND, Verdict, compute_verdict
from submissions import compliance_check
from submissions.attempts import count_result_attempts
from submissions.machines import read_system_description_fields
from submissions.pack.bundle import list_bundle_problems
from submissions.result_index import open_results
from submissions.round_readers import load_result_reader
from suite.errors import JudgedError, PodiumError
from suite.files.untrusted_files import replace_unprintable
from suite.result import Judgement, Result


def score_result(result: IndexedResult, judge: Judge | None = None) -> Result:
    """Score one result; JudgedError if its logs cannot be read."""
    read = read_scored_values(result)
    own = compliance_check.judge_single_result(result, judge)
    compliant = compliance_check.is_accepted_result(result, own, judge)
    verdict = compute_verdict(own)
    if verdict is Verdict.VALID and not compliant:
        verdict = Verdict.BROKEN  # by what it shares with other results
    judgement = Judgement(
        verdict=verdict.value,
        compliant=compliant,
        unjudged=compliance_check.describe_missing_workload(own),
    )
    return complete_result(result, read, judgement, compliance_check.list_noise_rules(own))


def read_scored_values(result: IndexedResult) -> Result:
    """Read the values of a result; JudgedError if its logs cannot be read."""
    try:
        return read_result_values(result)
    except PodiumError as error:
        raise JudgedError(str(error)) from error


def complete_result(
    result: IndexedResult, read: Result, judgement: Judgement, noise: tuple[str, ...] = ()
) -> Result:
    """Add to what was read from a result's logs its verdict, its machine and its attempts."""
    described = read_system_description_fields(result, read.round)
    return replace(
        read,
        judgement=judgement,
        noise=noise,
        described=described,
        machine=build_machine(described),
        attempts=count_result_attempts(result),
    )


def reject_result(result: Result) -> Result:
    """Return a result as one of a bundle that is damaged or invalid, where none is compliant."""
    judged = replace(result.judgement, compliant=False, verdict=Verdict.BROKEN.value)
    return replace(result, judgement=judged)


def read_result_values(result: IndexedResult) -> Result:
    """Read the values of a result's logs by its round's rules."""
    round_name = compliance_check.resolve_result_round(result)
    if round_name == UNKNOWN_ROUND:
        raise JudgedError(
            f"{result.single_log or result.folder}: unknown round; run podium check for details"
        )
    read: Result = load_result_reader(round_name, "score")(result, round_name)
    return read


def score_opened_results(
    path: Path, results: Sequence[IndexedResult], problems: list[str]
) -> Iterator[tuple[IndexedResult, Result]]:
    """Yield results with their scores; add what cannot be scored to `problems`. One judge is
    shared, so that it reads common files once.

    No row of a damaged or invalid bundle is compliant; accuracies that were not recomputed are
    named on stderr.
    """
    judge, damage_found = compliance_check.choose_shared_judge(results), list_bundle_problems(path)
    if damage_found and compliance_check.describe_missing_workload(
        compliance_check.judge_path(path)
    ):
        damage_found = []  # each row says so
    problems += damage_found
    for result in results:
        try:
            row = score_result(result, judge)
            yield result, reject_result(row) if damage_found else row
            if compliance_check.is_accuracy_unscored(result, judge):
                click.echo(
                    replace_unprintable(
                        f"podium: {row.workload} {row.scenario} of {row.system}: its accuracy was"
                        " reported but not recomputed, because the ground truth is missing"
                    ),
                    err=True,
                )
        except JudgedError as error:
            problems.append(str(error))


def score_paths(paths: Iterable[Path], problems: list[str]) -> list[Result]:
    """Score several paths; each set is scored once per path."""
    rows: list[Result] = []
    for path in paths:
        try:
            with open_results(path) as results:
                rows += [row for _, row in score_opened_results(path, results, problems)]
        except JudgedError as error:
            problems.append(str(error))
    return rows
