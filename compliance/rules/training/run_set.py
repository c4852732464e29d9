"""A set of published training runs: number, distinct runs, same configuration."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from compliance.documents.training.log import PublishedLog, PublishedSet
from compliance.rules import rule
from compliance.rules.training.log_hyperparameters import BATCHES, settings
from compliance.rules.training.log_identity import short
from compliance.verdict import Fault, Severity
from suite import events
from suite.files.layout import fold

FEWEST_SCORES: Final = 3
"""Evaluations from which on two runs with the same results are one."""
ALMOST: Final = re.compile(r"result[_ -]?\d+.*|result.*\.txt", re.IGNORECASE)
"""Names that somebody gave a log in place of result_N.txt."""


@rule("runs.count", PublishedSet)
def count(group: PublishedSet) -> Iterator[Fault]:
    """A set has exactly the benchmark's number of runs, so there are none to choose from.

    Source: training_rules.adoc, Benchmark Results, Number of Runs; the benchmark's `runs`.
    Advice: submit all runs of the set, and only those.
    """
    if group.row and len(group.logs) != group.row.runs:
        yield group.fault(f"{len(group.logs)} runs", f"{group.row.runs} runs of {group.benchmark}")
    elif not group.logs:
        yield group.fault("no run", "logs result_0.txt, result_1.txt and so on")


@rule("runs.numbers", PublishedSet)
def numbers(group: PublishedSet) -> Iterator[Fault]:
    """The logs of a set are numbered consecutively from 0 or 1.

    Source: submission_rules.adoc, Directory structure: result_<i>.txt; accepted sets begin with either.
    Advice: submit all runs under their own numbers.
    """
    found = [log.number or 0 for log in group.logs]
    if found and (found[0] not in (0, 1) or found != list(range(found[0], found[0] + len(found)))):
        yield group.fault(f"result_{', result_'.join(map(str, found))}", "consecutive numbers from 0 or 1")


@rule("runs.others", PublishedSet, severity=Severity.WARNING)
def others(group: PublishedSet) -> Iterator[Fault]:
    """A set's folder contains only its logs.

    Source: submission_rules.adoc, Directory structure.
    Advice: name logs result_<i>.txt; store other files elsewhere.
    """
    for path in group.others:
        if path.is_file() and ALMOST.fullmatch(path.name):
            yield group.fault(path.name, "only logs named result_<i>.txt", path)


@rule("runs.flat", PublishedSet)
def flat(group: PublishedSet) -> Iterator[Fault]:
    """Logs are in a benchmark's folder below their system's.

    Source: submission_rules.adoc, Directory structure: results/<system>/<benchmark>/result_<i>.txt.
    Advice: move them into a folder with the benchmark's name; the set is scored all the same.
    """
    if group.flat:
        yield group.fault(f"logs directly in {group.folder.name}", "a folder named after the benchmark")


@rule("runs.benchmark", PublishedSet)
def benchmark(group: PublishedSet) -> Iterator[Fault]:
    """The folder of a set is named after a benchmark of the round.

    Source: submission_rules.adoc, Directory structure; mlcommons/logging, package_checker.py, where it is only a warning.
    Advice: use the round's spelling.
    """
    if group.place and group.place.benchmark and group.round.benchmark(group.place.benchmark) is None:
        yield group.fault(f"the folder '{group.place.benchmark}'", f"one of {', '.join(group.round.benchmarks)}")


@rule("runs.distinct", PublishedSet)
def distinct(group: PublishedSet) -> Iterator[Fault]:
    """No two logs of a set describe the same run, even with the copy's clock or seed changed.

    Source: training_rules.adoc, Benchmark Results: a set of run results; no two accepted logs share times or results.
    Advice: submit each run once.
    """
    for marks in (times_of, scores_of):
        seen: dict[Any, PublishedLog] = {}
        for log in group.logs:
            mark = marks(log)
            other = seen.setdefault(mark, log) if mark else log
            if other is not log:
                what = "times" if marks is times_of else "results"
                yield group.fault(f"the same {what} as {other.path.name}", "a separate run", log.path, log.line(events.RUN_START))


def times_of(log: PublishedLog) -> tuple[int, ...]:
    """Give the times of a run's events after its start; nothing for a clock of whole seconds, which two runs may share."""
    times = [record.time_ns for record in log.run]
    return tuple(time - times[0] for time in times) if len(times) > 2 and not log.older else ()


def scores_of(log: PublishedLog) -> tuple[Any, ...]:
    """Give the results of a run's evaluations; nothing where they are too few to tell runs apart."""
    found = tuple(tuple(each.scores.values()) for each in log.evaluations)
    return found if len(set(found)) >= FEWEST_SCORES and log.row and log.row.strict else ()


@rule("runs.seeds", PublishedSet)
def seeds(group: PublishedSet) -> Iterator[Fault]:
    """Runs that log a seed have their own, and all runs of the set log one.

    Source: training_rules.adoc, Random numbers: seeds come from the clock or the system; no accepted set repeats a logged one.
    Advice: draw a new seed for each run, and submit its log unmodified.
    """
    told = next((log for log in group.logs if log.all(events.SEED)), None)
    for log in group.logs if told else ():
        if told and log.counts and not log.all(events.SEED):
            yield group.fault("no seed", f"a logged seed, as in {told.path.name}", log.path, severity=Severity.WARNING)
    seen: dict[str, PublishedLog] = {}
    for log in group.logs:
        record = log.first(events.SEED)
        if record is None or log.older:
            continue
        other = seen.setdefault(canonical(record.value), log)
        if other is not log:
            yield group.fault(f"seed {short(record.value)}, as in {other.path.name}", "a different seed for each run", log.path, record.line)


@rule("runs.hyperparameters", PublishedSet)
def hyperparameters(group: PublishedSet) -> Iterator[Fault]:
    """All runs of a set have the same hyperparameters and data.

    Source: training_rules.adoc, Benchmark Results: the runs of one implementation; no accepted set mixes them.
    Advice: repeat the runs with one configuration.
    """
    tables = [(log, settings(log)) for log in group.logs if log.counts]
    if group.row and not group.row.strict:
        constant = {*BATCHES, *(constraint.key for constraint in group.row.constraints if constraint.equals is not None)}
        tables = [(log, {key: value for key, value in table.items() if key in constant}) for log, table in tables]
    for key in sorted({key for _, table in tables for key in table}):
        told = [(log, canonical(table.get(key, "nothing"))) for log, table in tables]
        yield from differing(group, key, told)


def canonical(value: object) -> str:
    """Write a value so that 4096 and 4096.0 are one; True is no number."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(canonical, value))}]"
    return repr(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)


@rule("runs.identity", PublishedSet)
def identity(group: PublishedSet) -> Iterator[Fault]:
    """All runs of a set have the same organisation, division, platform, status, benchmark and log format.

    Source: submission_rules.adoc, Directory structure: a set is of one system and benchmark.
    Advice: put runs of other systems, divisions and rounds into folders of their own.
    """
    logs = [log for log in group.logs if log.counts]
    for key in group.round.events.identity:
        named = key == events.SUBMISSION_BENCHMARK
        told = [(log, str(group.round.benchmark(str(log.value(key))) if named else fold(str(log.value(key))))) for log in logs]
        yield from differing(group, key, told)
    yield from differing(group, "dialect", [(log, "/".join(sorted(log.dialects))) for log in logs])


def differing(group: PublishedSet, key: str, told: Sequence[tuple[PublishedLog, str]]) -> Iterator[Fault]:
    """Yield the logs that say something else than most."""
    if len({text for _, text in told}) < 2:
        return
    usual = Counter(text for _, text in told).most_common(1)[0][0]
    first = next(log for log, text in told if text == usual)
    for log, text in told:
        if text != usual:
            yield group.fault(f"{key} {text[:80]}", f"{usual[:80]}, as in {first.path.name}", log.path, log.line(key))


@rule("runs.converged", PublishedSet)
def converged(group: PublishedSet) -> Iterator[Fault]:
    """At most one run of a set misses the target.

    Source: training_rules.adoc, Benchmark Results: invalid if there is more than one non-converging run.
    Advice: repeat the set with settings that converge.
    """
    missed = [log for log in group.logs if not log.succeeded]
    allowed = group.round.rules.not_converged_allowed
    if len(missed) > allowed:
        yield group.fault(f"{len(missed)} of {len(group.logs)} runs did not converge", f"at most {allowed}", missed[-1].path)


@rule("runs.overlap", PublishedSet, severity=Severity.WARNING)
def overlap(group: PublishedSet) -> Iterator[Fault]:
    """The runs of a set do not overlap in time; overlapping runs shared the system or ran on several.

    Source: house rule; about half of the accepted sets of two rounds overlap.
    Advice: explain in the submission how the runs shared the system.
    """
    ends = ((log.first(events.RUN_START), log.first(events.RUN_STOP), log.path) for log in group.logs)
    spans = sorted((start.time_ns, stop.time_ns, path) for start, stop, path in ends if start and stop)
    shared = [path for (_, stop, _), (start, _, path) in zip(spans, spans[1:], strict=False) if start < stop]
    if shared:
        yield group.fault(f"{len(shared)} of {len(spans)} runs start before another ends", "runs that do not overlap", shared[0])
