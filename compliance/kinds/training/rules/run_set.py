"""Check a set of published training runs: number, distinct runs, same configuration."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isclose
from typing import Any, Final

from compliance.kinds.training.documents.bypass import SEEDS_BYPASS_OPTION, find_checker_bypass
from compliance.kinds.training.documents.log import PublishedLog, PublishedSet
from compliance.kinds.training.rules.log_hyperparameters import (
    BATCH_SIZE_KEYS,
    collect_constant_settings,
)
from compliance.kinds.training.rules.log_identity import format_short_value
from compliance.recognition.renamed_logs import summarise_names
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import fold_name
from suite.units import NS_PER_S

MIN_DISTINCT_SCORES: Final = 3
"""Minimum number of evaluations at which equal results show that two runs are the same."""
MIN_UNROUNDED_CHARACTERS: Final = 10
"""Minimum characters of a result that is not rounded: rounded results of two runs may be equal."""
COPIED_RESULT_TOLERANCE: Final = 2e-5
"""Maximum relative difference between the results of a copy; accepted pairs have 7 % so close."""
MIN_TELLING_CHARACTERS: Final = 7
"""Minimum characters of a result at which such closeness is not a coincidence."""
MIN_EVENT_GAPS: Final = 12
"""Minimum number of times between events that identifies a run."""
COPIED_GAP_TOLERANCE_NS: Final = 5_000_000
"""Maximum difference in every time between two events of a copy. Accepted pairs of runs differ by
11 ms and more in at least one.
"""
EXEMPT_SETTING_KEYS: Final = frozenset({"train_samples", "max_steps", "data_file"})
"""Values that may differ between the runs of a set from v1.0 on: the samples until the target was
reached, the step at which a run would give up, and the file of a process.
"""
MISNAMED_LOG_PATTERN: Final = re.compile(r"result[_ -]?\d+.*|result.*\.txt", re.IGNORECASE)
"""Names that some submitters gave to a log instead of result_N.txt."""


@rule(
    "runs.count",
    PublishedSet,
    About.RULES,
    doubt="the mean, which is over the round's number of runs",
)
def count(group: PublishedSet) -> Iterator[Fault]:
    """A set has exactly the benchmark's number of runs, so the submitter cannot choose among more.

    Source: training_rules.adoc, Benchmark Results, Number of Runs; the benchmark's `runs`.
    Advice: submit all runs of the set, and only those.
    """
    if group.row and len(group.logs) != group.row.runs:
        yield group.build_fault(
            f"{len(group.logs)} runs", f"{group.row.runs} runs of {group.benchmark}"
        )
    elif not group.logs:
        yield group.build_fault("no run", "logs result_0.txt, result_1.txt and so on")


@rule("runs.numbers", PublishedSet)
def numbers(group: PublishedSet) -> Iterator[Fault]:
    """The logs of a set are numbered consecutively from 0 or 1.

    Source: submission_rules.adoc, Directory structure: result_<i>.txt; accepted sets begin with
    either, and from v1.0 on some skip numbers; mlcommons/logging, package_checker.py, accepts any
    result_*.txt.
    Advice: submit all runs under their own numbers.
    """
    unnumbered = [log.path.name for log in group.logs if log.number is None]
    if group.is_renamed:
        yield replace(
            group.build_fault(
                f"{len(unnumbered)} training log{'s' * (len(unnumbered) > 1)} of"
                f" {group.benchmark or 'an unknown benchmark'}, named"
                f" {summarise_names(unnumbered)}",
                "result_<i>.txt",
                severity=Severity.WARNING,
            ),
            advice="name them result_0.txt, result_1.txt and so on before they are submitted.",
        )
    elif unnumbered:
        yield group.build_fault(
            ", ".join(unnumbered), "result_<i>.txt with a number", severity=Severity.WARNING
        )
    found = [log.number for log in group.logs if log.number is not None]
    if (
        found
        and not unnumbered
        and (found[0] not in (0, 1) or found != list(range(found[0], found[0] + len(found))))
    ):
        accepted = None
        if group.counts_progress and len(set(found)) == len(found):
            accepted = Severity.WARNING
        yield group.build_fault(
            f"result_{', result_'.join(map(str, found))}",
            "consecutive numbers from 0 or 1",
            severity=accepted,
        )


@rule("runs.others", PublishedSet, severity=Severity.WARNING)
def others(group: PublishedSet) -> Iterator[Fault]:
    """A set's folder contains only its logs.

    Source: submission_rules.adoc, Directory structure.
    Advice: name logs result_<i>.txt; store other files elsewhere.
    """
    for path in group.others:
        if path.is_file() and MISNAMED_LOG_PATTERN.fullmatch(path.name):
            yield group.build_fault(path.name, "only logs named result_<i>.txt", file=path)


@rule("runs.flat", PublishedSet)
def flat(group: PublishedSet) -> Iterator[Fault]:
    """Logs are in a benchmark's folder below their system's.

    Source: submission_rules.adoc, Directory structure: results/<system>/<benchmark>/result_<i>.txt.
    Advice: move them to a folder with the benchmark's name; the set is scored in either case.
    """
    if group.is_flat:
        yield group.build_fault(
            f"logs directly in {group.folder.name}", "a folder named after the benchmark"
        )


@rule("runs.benchmark", PublishedSet, About.IDENTITY, doubt="which benchmark it is a result of")
def benchmark(group: PublishedSet) -> Iterator[Fault]:
    """The folder of a set has the name of a benchmark of the round.

    Source: submission_rules.adoc, Directory structure; mlcommons/logging, package_checker.py, where
    it is only a warning.
    Advice: use the round's spelling.
    """
    if (
        group.place
        and group.place.benchmark
        and group.round.find_benchmark_name(group.place.benchmark) is None
    ):
        yield group.build_fault(
            f"the folder '{group.place.benchmark}'", f"one of {', '.join(group.round.benchmarks)}"
        )


@rule("runs.distinct", PublishedSet, About.SCORE, doubt="the mean: one run is counted twice")
def distinct(group: PublishedSet) -> Iterator[Fault]:
    """No two logs of a set describe the same run, even with the copy's clock, seed or last digits
    changed.

    Source: training_rules.adoc, Benchmark Results: a set of run results; no two accepted logs share
    times or results.
    Advice: submit each run once.
    """
    for marks, what in (
        (compute_event_times, "times"),
        (list_distinct_scores, "results"),
        (list_run_bounds, "times"),
    ):
        known_runs: dict[Any, PublishedLog] = {}
        for log in group.logs:
            mark = marks(log)
            if not mark:
                continue
            other = known_runs.setdefault(mark, log)
            if other is not log:
                yield log.build_fault(
                    f"the same {what} as {other.path.name}", "a separate run", events.RUN_START
                )
    yield from check_resembling_runs(group)


def check_resembling_runs(group: PublishedSet) -> Iterator[Fault]:
    """Yield runs since v1.0 that equal another one except for last digits: their rounded results
    are the same, or their times differ by milliseconds.
    """
    earlier: list[tuple[PublishedLog, Sequence[float], Sequence[int]]] = []
    if not group.counts_progress:
        return
    for log in group.logs:
        results, times = list_precise_results(log), compute_event_gaps(log)
        other = next(
            (known for known, told, _ in earlier if has_nearly_equal_results(results, told)), None
        )
        # already an error
        if other and not list_distinct_scores(log) == list_distinct_scores(other) != ():
            found = f"results that differ from those of {other.path.name} only in the last digits"
            yield log.build_fault(
                found, "a separate run", events.EVAL_ACCURACY, severity=Severity.WARNING
            )
        if other := next(
            (known for known, _, told in earlier if has_nearly_equal_gaps(times, told)), None
        ):
            found = (
                "times between events that differ by at most"
                f" {COPIED_GAP_TOLERANCE_NS // 1_000_000} ms from those of"
                f" {other.path.name}"
            )
            yield log.build_fault(
                found, "a separate run", events.RUN_START, severity=Severity.WARNING
            )
        earlier.append((log, results, times))


def list_precise_results(log: PublishedLog) -> Sequence[float]:
    """Return the results of a run's evaluations; nothing if they are too few or too short to
    distinguish runs.
    """
    found = [
        score for each in log.evaluations for score in each.scores.values() if score is not None
    ]
    if len(set(found)) >= MIN_DISTINCT_SCORES and any(
        len(f"{score}") >= MIN_TELLING_CHARACTERS for score in found
    ):
        return found
    return []


def has_nearly_equal_results(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return whether results are equal except for the last digits."""
    return len(one) == len(other) > 0 and all(
        isclose(left, right, rel_tol=COPIED_RESULT_TOLERANCE)
        for left, right in zip(one, other, strict=True)
    )


def compute_event_gaps(log: PublishedLog) -> Sequence[int]:
    """Return the times between the events of a run; nothing if they are few, or if the clock has
    whole seconds.
    """
    times = [record.time_ns for record in log.run]
    coarse = all(time % NS_PER_S == times[0] % NS_PER_S for time in times)
    if len(times) > MIN_EVENT_GAPS and not coarse:
        return [late - early for early, late in pairwise(times)]
    return []


def has_nearly_equal_gaps(one: Sequence[int], other: Sequence[int]) -> bool:
    """Return whether times between events differ only by milliseconds, but are not equal. (Equal
    times are already an error.)
    """
    return (
        len(one) == len(other)
        and one != other
        and all(
            abs(left - right) <= COPIED_GAP_TOLERANCE_NS
            for left, right in zip(one, other, strict=True)
        )
    )


def compute_event_times(log: PublishedLog) -> tuple[int, ...]:
    """Return the times of a run's events after its start; nothing for a clock with whole seconds,
    since two runs may have the same times.
    """
    times = [record.time_ns for record in log.run]
    if len(times) > 2 and not log.older:
        return tuple(time - times[0] for time in times)
    return ()


def list_run_bounds(log: PublishedLog) -> tuple[int, ...]:
    """Return the start and end of each run in milliseconds; nothing for dialects with whole
    seconds.
    """
    start, stop = log.find_record(events.RUN_START), log.find_record(events.RUN_STOP)
    if start and stop and log.row and log.row.progress:
        return (start.time_ns, stop.time_ns)
    return ()


def list_distinct_scores(log: PublishedLog) -> tuple[Any, ...]:
    """Return the results of a run's evaluations; nothing if they are too few to distinguish
    runs.
    """
    found = tuple(tuple(each.scores.values()) for each in log.evaluations)
    precise = log.row and (
        log.row.strict
        or (
            log.row.progress
            and any(
                len(f"{score}") >= MIN_UNROUNDED_CHARACTERS for scores in found for score in scores
            )
        )
    )
    if len(set(found)) >= MIN_DISTINCT_SCORES and precise:
        return found
    return ()


@rule(
    "runs.seeds", PublishedSet, About.RULES, doubt="whether the runs are independent of one another"
)
def seeds(group: PublishedSet) -> Iterator[Fault]:
    """Runs that log a seed have different seeds, and if one run of a set logs a seed, all do.

    Source: training_rules.adoc, Random numbers: seeds come from the clock or the system; no
    accepted set repeats a logged seed.
    Advice: draw a new seed for each run, and log it in every run of the set.
    """
    if group.counts_progress:
        yield from check_drawn_seeds(group)
        return
    seeded_log = next((log for log in group.logs if log.list_records(events.SEED)), None)
    if seeded_log:
        for log in group.logs:
            if seeded_log and log.counts and not log.list_records(events.SEED):
                yield log.build_fault(
                    "no seed",
                    f"a logged seed, as in {seeded_log.path.name}",
                    severity=Severity.WARNING,
                )
    seen: dict[str, PublishedLog] = {}
    for log in group.logs:
        record = log.find_record(events.SEED)
        if record is None or log.older:
            continue
        other = seen.setdefault(format_canonical_value(record.value), log)
        if other is not log:
            yield log.build_fault(
                f"seed {format_short_value(record.value)}, as in {other.path.name}",
                "a different seed for each run",
                record.line,
            )


def check_drawn_seeds(group: PublishedSet) -> Iterator[Fault]:
    """Yield runs without a seed, and seeds that two runs drew in one line of one file.

    Source: mlcommons/logging, seed_checker.py.
    """
    is_seed_required = group.round.rules.seeds_required and any(log.closed for log in group.logs)
    bypass = find_checker_bypass(group, SEEDS_BYPASS_OPTION)
    if bypass:
        let_pass, severity = (f" (ignored: {bypass})", Severity.WARNING)
    else:
        let_pass, severity = "", None
    if is_seed_required:
        for log in group.logs:
            if log.counts and all(
                record.value in (None, "") for record in log.list_records(events.SEED)
            ):
                yield log.build_fault("no seed", f"a logged seed{let_pass}", severity=severity)
    seen: dict[tuple[str, str, str], PublishedLog] = {}
    for log in group.logs:
        for record in log.list_records(events.SEED):
            where = (
                str(record.metadata.get("file")),
                str(record.metadata.get("lineno")),
                format_canonical_value(record.value),
            )
            other = seen.setdefault(where, log)
            if other is not log:
                found, required = (
                    f"seed {format_short_value(record.value)}, as in {other.path.name}",
                    f"a different seed for each run{let_pass}",
                )
                yield log.build_fault(found, required, record.line, severity=severity)
                break


@rule(
    "runs.hyperparameters",
    PublishedSet,
    About.RULES,
    doubt="whether the mean is that of one configuration",
)
def hyperparameters(group: PublishedSet) -> Iterator[Fault]:
    """All runs of a set have the same hyperparameters and data. A value on a garbled line is
    unknown, and not compared.

    Source: training_rules.adoc, Benchmark Results: the runs of one implementation; no accepted set
    mixes them.
    Advice: repeat the runs with one configuration.
    """
    tables = [(log, collect_constant_settings(log)) for log in group.logs if log.counts]
    if group.counts_progress:
        tables = [
            (log, {key: value for key, value in table.items() if key not in EXEMPT_SETTING_KEYS})
            for log, table in tables
        ]
    elif group.row and not group.row.strict:
        constant = {
            *BATCH_SIZE_KEYS,
            *(
                constraint.key
                for constraint in group.row.constraints
                if constraint.equals is not None
            ),
        }
        tables = [
            (log, {key: value for key, value in table.items() if key in constant})
            for log, table in tables
        ]
    pardoned = [log.path for log in group.pardoned]
    for key in sorted({key for _, table in tables for key in table}):
        stated = [
            (log, format_canonical_value(table[key]) if key in table else None)
            for log, table in tables
            if key in table or not (log.path in pardoned or key in log.source.unread_keys)
        ]
        yield from check_differing_values(group, key, stated)


def format_canonical_value(value: object) -> str:
    """Format a value so that 4096 and 4096.0 are equal; True is not a number."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_canonical_value, value))}]"
    if isinstance(value, float) and value.is_integer():
        return repr(int(value))
    return repr(value)


@rule(
    "runs.identity",
    PublishedSet,
    About.IDENTITY,
    doubt="whether the runs are of one system and benchmark",
)
def identity(group: PublishedSet) -> Iterator[Fault]:
    """All runs of a set have the same organisation, division, platform, status, benchmark and log
    format.

    Source: submission_rules.adoc, Directory structure: a set belongs to one system and benchmark.
    Advice: move runs of other systems, divisions and rounds to separate folders.
    """
    logs = [log for log in group.logs if log.counts]
    for key in group.round.events.identity:
        fold = group.round.find_benchmark_name if key == events.SUBMISSION_BENCHMARK else fold_name
        stated = [(log, str(fold(str(log.find_value(key))))) for log in logs]
        told_apart = (
            key in (events.SUBMISSION_BENCHMARK, events.SUBMISSION_DIVISION)
            or not group.round.rules.placeholders
        )
        yield from check_differing_values(
            group, key, stated, None if told_apart else Severity.WARNING
        )
    yield from check_differing_values(
        group, "dialect", [(log, "/".join(sorted(log.dialects))) for log in logs]
    )


def check_differing_values(
    group: PublishedSet,
    key: str,
    stated: Sequence[tuple[PublishedLog, str | None]],
    severity: Severity | None = None,
) -> Iterator[Fault]:
    """Yield the logs that differ from most others; None is the value of a log without the key."""
    if len({text for _, text in stated}) < 2:
        return
    usual = Counter(text for _, text in stated).most_common(1)[0][0]
    first = next(log for log, text in stated if text == usual)
    for log, text in stated:
        if text != usual:
            yield log.build_fault(
                f"{key} is missing" if text is None else f"{key} {text[:80]}",
                f"{f'no {key}' if usual is None else usual[:80]}, as in {first.path.name}",
                key,
                severity=severity,
            )


@rule("runs.converged", PublishedSet, About.QUALITY, doubt="whether the set reached the target")
def converged(group: PublishedSet) -> Iterator[Fault]:
    """At most one run of a set misses the target.

    Source: training_rules.adoc, Benchmark Results: invalid if there is more than one non-converging
    run.
    Advice: repeat the set with settings that converge.
    """
    missed = [log for log in group.logs if not log.succeeded]
    allowed = group.missed_allowed
    if len(missed) > allowed:
        yield group.build_fault(
            f"{len(missed)} of {len(group.logs)} runs did not converge",
            f"at most {allowed}",
            file=missed[-1].path,
        )


@rule("runs.overlap", PublishedSet, About.SCORE, severity=Severity.WARNING)
def overlap(group: PublishedSet) -> Iterator[Fault]:
    """The runs of a set do not overlap in time. Overlapping runs share one system or use several.

    Source: house rule; about half of the accepted sets of two rounds overlap.
    Advice: explain in the submission how the runs shared the system.
    """
    ends = (
        (log.find_record(events.RUN_START), log.find_record(events.RUN_STOP), log.path)
        for log in group.logs
    )
    spans = sorted(
        (start.time_ns, stop.time_ns, path) for start, stop, path in ends if start and stop
    )
    shared = [
        path
        for (_, stop, _), (start, _, path) in zip(spans, spans[1:], strict=False)
        if start < stop
    ]
    if shared:
        yield group.build_fault(
            f"{len(shared)} of {len(spans)} runs start before another ends",
            "runs that do not overlap",
            file=shared[0],
        )
