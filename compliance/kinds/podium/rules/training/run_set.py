"""Check the runs of a set: the required number of different runs with the same configuration."""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from compliance.kinds.podium.documents.json_document import (
    build_training_document,
    check_document_schema,
)
from compliance.kinds.podium.documents.training import HEADER_EVENTS, TrainingLog, TrainingSet
from compliance.kinds.podium.rules.training.hyperparameters import (
    SAMPLE_COUNT_EVENTS,
    select_logged_settings,
)
from compliance.kinds.podium.rules.training.quality import BROKEN_OFF_ADVICE, is_broken_off
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity, Verdict
from suite import events
from suite.terms import Profile

RUN_OWN_EVENTS: Final = frozenset({events.RUN_INDEX, events.SEED, events.COMMAND_LINE})
"""Values that differ between runs."""


@rule("set.runs", TrainingSet, About.RULES)
def runs(group: TrainingSet) -> Iterator[Fault]:
    """A set has the row's number of runs: exactly that many in profile full, at least that many in
    the others.

    Source: training_rules.adoc v0.7, Benchmark results: runs per benchmark; the row's `runs`; house
    rule for smoke and quick.
    Advice: run the missing ones with podium train, or decide which runs to leave out before you
    look at their results.
    """
    if group.training is None:
        return
    full = group.logs[0].profile is Profile.FULL
    if len(group.logs) < group.training.runs or (full and len(group.logs) > group.training.runs):
        yield group.build_fault(
            f"{len(group.logs)} runs",
            f"{group.training.runs}" if full else f"{group.training.runs} or more",
        )


@rule("set.numbers", TrainingSet, About.FORM)
def numbers(group: TrainingSet) -> Iterator[Fault]:
    """The logs of a set are numbered from 0 without gaps.

    Source: submission_rules.adoc, result_<i>.txt; house rule: no run of a set is left out.
    Advice: submit all runs of the set, under their original names.
    """
    found = [log.number for log in group.logs]
    if found != list(range(len(found))):
        yield group.build_fault(
            f"result_{', result_'.join(map(str, found))}", f"result_0 to result_{len(found) - 1}"
        )


@rule("set.unfinished", TrainingSet, About.FORM, severity=Severity.WARNING)
def unfinished(group: TrainingSet) -> Iterator[Fault]:
    """A set contains no unfinished logs.

    Source: house rule: an unfinished file has the suffix .partial.
    Advice: continue with podium train --resume, or let the next run move it aside.
    """
    for path in group.unfinished:
        yield group.build_fault(path.name, "finished logs", file=path)


@rule("set.strays", TrainingSet, About.FORM, severity=Severity.WARNING)
def strays(group: TrainingSet) -> Iterator[Fault]:
    """A set's folder contains only its logs.

    Source: submission_rules.adoc, result_<i>.txt; house rule: files that the judge does not read
    are reported, and in a bundle they are an error.
    Advice: keep notes and copies of logs outside the results folder.
    """
    for path in group.unexpected_files:
        yield group.build_fault(path.name, "only result_<i>.txt", file=path)


@rule("set.distinct", TrainingSet, About.SCORE)
def distinct(group: TrainingSet) -> Iterator[Fault]:
    """No two logs of a set describe the same run.

    Source: training_rules.adoc v0.7, Benchmark results: independent runs.
    Advice: submit each run once.
    """
    known_digests: dict[str, Path] = {}
    for log in group.logs:
        other = known_digests.setdefault(compute_log_digest(log), log.path)
        if other != log.path:
            yield log.build_fault(f"the same run as {other.name}", "a separate run")


def compute_log_digest(log: TrainingLog) -> str:
    """Return a digest of values that no two runs share: the times and values of the run's
    events.
    """
    digest = hashlib.sha256()
    for record in log.records:
        if record.key not in HEADER_EVENTS:
            digest.update(f"{record.key} {record.event.time_ms} {record.value!r}\n".encode())
    return digest.hexdigest()


@rule("set.seeds", TrainingSet, About.RULES)
def seeds(group: TrainingSet) -> Iterator[Fault]:
    """Every run of a set has its own seed.

    Source: training_rules.adoc v0.7, Random numbers; no accepted set of two rounds repeats a logged
    seed.
    Advice: let podium train draw the seeds.
    """
    known_seeds: dict[str, Path] = {}
    for log in group.logs:
        record = log.find_record(events.SEED)
        if record and (other := known_seeds.setdefault(repr(record.value), log.path)) != log.path:
            yield log.build_fault(
                f"seed {record.value}, as in {other.name}",
                "a different seed for each run",
                record.line,
            )


@rule("set.hyperparameters", TrainingSet, About.RULES)
def hyperparameters(group: TrainingSet) -> Iterator[Fault]:
    """All runs of a set have the same hyperparameters and facts.

    Source: training_rules.adoc v0.7, Hyperparameters: the same for all runs of a set.
    Advice: repeat the runs with one configuration.
    """
    for log in group.logs[1:]:
        keys = {
            *select_logged_settings(log),
            *select_logged_settings(group.logs[0]),
            events.QUALITY_TARGET,
            *SAMPLE_COUNT_EVENTS,
        }
        yield from check_equal_events(group, log, sorted(keys))


@rule("set.stamps", TrainingSet, About.IDENTITY)
def stamps(group: TrainingSet) -> Iterator[Fault]:
    """All runs of a set have the same identity, header, settings and nonce.

    Source: submission_rules.adoc, Directory structure: a set belongs to one organisation, system
    and benchmark; house rule: and to one campaign.
    Advice: put runs of different campaigns into different results folders.
    """
    for log in group.logs[1:]:
        yield from check_equal_events(
            group, log, [key for key in HEADER_EVENTS if key not in RUN_OWN_EVENTS]
        )


def check_equal_events(group: TrainingSet, log: TrainingLog, keys: list[str]) -> Iterator[Fault]:
    """Yield differences between each log and the set's first."""
    first = group.logs[0]
    for key in keys:
        if log.find_value(key) != first.find_value(key):
            yield log.build_fault(
                f"{key} {log.find_value(key)!r}",
                f"{first.find_value(key)!r}, as in {first.path.name}",
                key,
            )


@rule("set.converged", TrainingSet, About.QUALITY, weight=Verdict.NOT_CONVERGED)
def converged(group: TrainingSet) -> Iterator[Fault]:
    """At most the round's number of runs in a set miss the target. A set that drops no slowest run
    allows no miss.

    Source: training_rules.adoc v0.7, Benchmark results: one run may fail to converge and counts as
    the slowest, two make the set invalid.
    Advice: repeat the set with settings that converge.
    """
    missed = [log for log in group.logs if not log.succeeded]
    rules = group.logs[0].round.training if group.logs else None
    allowed = (
        rules.not_converged_allowed if rules and len(group.logs) >= rules.olympic_from_runs else 0
    )
    if len(missed) > allowed:
        broken = [log for log in missed if is_broken_off(log)]
        reasons = f" ({len(broken)} broken off before the first evaluation)" if broken else ""
        fault = group.build_fault(
            f"{len(missed)} of {len(group.logs)} runs did not converge{reasons}",
            f"at most {allowed}",
            file=missed[-1].path,
        )
        yield replace(fault, advice=BROKEN_OFF_ADVICE) if broken == missed else fault


@rule("set.overlap", TrainingSet, About.SCORE, severity=Severity.WARNING)
def overlap(group: TrainingSet) -> Iterator[Fault]:
    """The runs of a set do not overlap in time. Overlapping runs share the system.

    Source: house rule; about half of the accepted sets of two rounds overlap, on systems of many
    nodes.
    Advice: explain in the submission how the runs shared the system.
    """
    spans = sorted(
        (start.event.time_ms, stop.event.time_ms, log.path)
        for log in group.logs
        if has_run_times(log)
        and (start := log.find_record(events.RUN_START))
        and (stop := log.find_record(events.RUN_STOP))
    )
    for (_, stop_ms, before), (start_ms, _, path) in zip(spans, spans[1:], strict=False):
        if start_ms < stop_ms:
            yield group.build_fault(
                f"starts before {before.name} ends", "runs one after another", file=path
            )


def has_run_times(log: TrainingLog) -> bool:
    """Return whether a log contains the beginning and the end of its run."""
    return bool(log.list_records(events.RUN_START) and log.list_records(events.RUN_STOP))


@rule("set.schema", TrainingSet, About.FORM)
def schema(group: TrainingSet) -> Iterator[Fault]:
    """The facts of each log match the workload's published schema.

    Source: the file training.<round>.<workload>.json of the workload's package.
    Advice: log the values that the workload's schema lists; a workload that changed needs a new
    version of its schema.
    """
    for log in group.logs:
        for where, problem in check_document_schema(
            f"training.{log.round.name}.{log.workload}.json", build_training_document(log)
        ):
            yield log.build_fault(f"{where}: {problem[:160]}", "the shape required by the schema")
