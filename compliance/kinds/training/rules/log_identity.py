"""Check the identity of a published training log: logged once, with the round's names, in the right
folder.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from compliance.documents.organisation_name import is_organisation_name, mark_code_points
from compliance.kinds.training.documents.log import PublishedLog
from compliance.kinds.training.logs.published import Dialect
from compliance.kinds.training.round import PublishedRules
from compliance.logs.finite_numbers import parse_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.files.layout import fold_name

DIALECTS_OF_MARK: Final = {
    ":::MLL": frozenset({Dialect.MLL, Dialect.TEXT}),
    ":::MLLOG": frozenset({Dialect.MLLOG, Dialect.SECONDS}),
}
"""Description of each round's mark."""
MAX_SHOWN_VALUE_CHARACTERS: Final = 80
PLACEHOLDER_PATTERN: Final = re.compile(
    r"PLACEHOLDER|^reference_implementation$|^unknown$", re.IGNORECASE
)
"""Placeholders for names in templates of run scripts."""
TEXT_FORM_BATCH_KEY: Final = "input_batch_size"
"""The text form's name for the batch size of a process."""
TYPED_EVENTS: Final = events.RUN_EVENTS | {events.INIT_START, events.INIT_STOP}
"""Events whose type is checked from v1.0 on; logs since then have many events of their own."""
OPTIONAL_NAME_EVENTS: Final = (events.SUBMISSION_ORG, events.SUBMISSION_PLATFORM)
ALTERNATIVE_EVENTS: Final = (
    (events.BLOCK_START, events.EPOCH_START, "training starts"),
    (events.BLOCK_STOP, events.EPOCH_STOP, "training stops"),
    (events.BLOCK_START, events.EVAL_START, "an evaluation starts"),
    (events.BLOCK_STOP, events.EVAL_STOP, "an evaluation stops"),
)
"""A log since v1.0 has one of these. Source: mlcommons/logging, training_1.0.0 to training_6.1.0,
common.yaml, AT_LEAST_ONE_OR.
"""
OTHER_RESULT_EVENTS: Final = (
    "eval_error",
    "eval_loss",
    "eval_score",
    "eval_metric",
    "eval_perplexity",
    "eval_result",
)
"""Names under which a program may log the result of an evaluation instead of eval_accuracy."""
DECISIVE_EVENTS: Final = frozenset(
    {events.RUN_START, events.RUN_STOP, events.EVAL_ACCURACY, TEXT_FORM_BATCH_KEY}
)
"""Events that the time and the quality of a run rest on."""
START, END, POINT = "INTERVAL_START", "INTERVAL_END", "POINT_IN_TIME"


def format_short_value(value: object) -> str:
    """Format a value on part of a line."""
    text = repr(value)
    if len(text) <= MAX_SHOWN_VALUE_CHARACTERS:
        return text
    return text[:MAX_SHOWN_VALUE_CHARACTERS] + "..."


@rule("log.dialect", PublishedLog)
def dialect(log: PublishedLog) -> Iterator[Fault]:
    """A log uses one dialect, its round's.

    Source: mlcommons/logging, mlp_parser/ruleset_060.py and ruleset_070.py.
    Advice: check the log against the round it was run for; do not concatenate logs.
    """
    foreign = log.dialects - DIALECTS_OF_MARK[log.round.dialect]
    if foreign or len(log.dialects) > 1:
        yield log.build_fault(
            f"records of {' and '.join(sorted(log.dialects))}",
            f"records of one dialect, {log.round.dialect}",
        )


@rule("log.older", PublishedLog, severity=Severity.WARNING)
def older(log: PublishedLog) -> Iterator[Fault]:
    """The records of a log name organisation, division, hyperparameters and status.

    Source: training_rules.adoc v0.6 and submission_rules.adoc; one accepted set has the text form
    from before v0.6, which does not.
    Advice: log with mlcommons/logging; values that the log does not name are not checked.
    """
    if log.older:
        yield log.build_fault(
            "the text format used before v0.6", f"records that begin with {log.round.dialect}", 1
        )


@rule(
    "log.identity",
    PublishedLog,
    About.IDENTITY,
    doubt="whose result it is, and of which benchmark and division",
)
def identity(log: PublishedLog) -> Iterator[Fault]:
    """Benchmark, organisation, division, status and platform are logged, each with one value.

    Source: mlcommons/logging, common.yaml: EXACTLY_ONE; if a log repeats one, the last value counts
    as much as the first.
    Advice: log each of them once.
    """
    if log.older:
        return
    keys = log.round.events.identity
    if log.free:  # even if a round's checker requires no name, a logged one must be valid
        keys = (
            *keys,
            *(key for key in OPTIONAL_NAME_EVENTS if key not in keys and log.counts.get(key)),
        )
    missing = sum(not log.counts.get(key) for key in keys)
    # a log without any of these
    otherwise = None
    if log.round.rules.loose and missing > len(keys) // 2:
        otherwise = Severity.WARNING
    for key in keys:
        records = log.list_records(key)
        if not records:
            yield log.build_fault(f"no {key}", "exactly 1 record", severity=otherwise)
        for record in records:
            if not isinstance(record.value, str) or not record.value.strip():
                yield log.build_fault(
                    f"{key} {format_short_value(record.value)}", "a name", record.line
                )
            elif log.free and PLACEHOLDER_PATTERN.search(record.value):
                yield log.build_fault(
                    f"{key} {format_short_value(record.value)}",
                    "a name instead of the placeholder",
                    record.line,
                    severity=Severity.WARNING,
                )
            elif record.value != records[0].value:
                yield log.build_fault(
                    f"{key} {format_short_value(record.value)}, and"
                    f" {format_short_value(records[0].value)} in line {records[0].line}",
                    "one value",
                    record.line,
                )
        if len(records) > 1:
            yield log.build_fault(
                f"{key}: {log.counts[key]} records",
                "exactly 1",
                records[1].line,
                severity=Severity.WARNING,
            )


@rule(
    "log.names",
    PublishedLog,
    About.IDENTITY,
    doubt="which benchmark and division it is a result of",
)
def names(log: PublishedLog) -> Iterator[Fault]:
    """Benchmark, division and status have values from the round. A division cut short, as "close"
    in an accepted set of v1.0, is a warning.

    Source: mlcommons/logging, common.yaml, CHECK of submission_benchmark, submission_division and
    submission_status.
    Advice: use the round's names.
    """
    rules = log.round.rules
    known: dict[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
        events.SUBMISSION_BENCHMARK: (log.round.find_benchmark_name, tuple(log.round.benchmarks)),
        events.SUBMISSION_DIVISION: (
            lambda name: name.casefold() in rules.divisions,
            rules.divisions,
        ),
        events.SUBMISSION_STATUS: (
            lambda name: any(each in fold_name(name) for each in rules.statuses),
            rules.statuses,
        ),
    }
    for key, (holds, choices) in known.items():
        for record in log.list_records(key):
            if isinstance(record.value, str) and record.value.strip() and not holds(record.value):
                yield log.build_fault(
                    f"{key} {format_short_value(record.value)}",
                    f"one of {', '.join(choices)}",
                    record.line,
                    severity=weigh_other_name(rules, key, record.value),
                )


def weigh_other_name(rules: PublishedRules, key: str, name: str) -> Severity | None:
    """Return the severity of a name that the round does not have; None leaves the rule's own."""
    if key == events.SUBMISSION_STATUS and rules.any_status:
        return Severity.WARNING
    if key == events.SUBMISSION_DIVISION and any(
        each.startswith(name.casefold()) for each in rules.divisions
    ):
        return Severity.WARNING
    return None


@rule(
    "log.present",
    PublishedLog,
    About.SCORE,
    doubt="the time to train and whether the target was reached",
)
def present(log: PublishedLog) -> Iterator[Fault]:
    """A log contains the start and end of the run and an evaluation, on which its result rests, and
    cache_clear and initialisation. From v1.0 on it also contains the start and end of training and
    evaluation.

    Source: mlcommons/logging, common.yaml: EXACTLY_ONE, AT_LEAST_ONE and AT_LEAST_ONE_OR. Only the
    lack of what the result rests on is an error.
    Advice: log run_start, run_stop, cache_clear, initialisation and evaluations; put the whole log
    here if this is only a part.
    """
    wanted = (*log.round.events.some, *log.round.events.once)
    if log.older:
        wanted = (events.RUN_START, events.RUN_STOP, events.EVAL_ACCURACY, TEXT_FORM_BATCH_KEY)
    if log.row and log.row.result_event and log.list_records(log.row.result_event):
        wanted = tuple(key for key in wanted if key != events.RUN_STOP)
    for key in wanted:
        if not log.counts.get(key):
            about = None
            if key not in DECISIVE_EVENTS:
                about = About.FORM
            other = None
            if key == events.EVAL_ACCURACY:
                other = find_other_result_event(log)
            fault = log.build_fault(f"no {key}", "a record", about=about)
            if other:
                fault = replace(
                    fault,
                    found=f"no {key}; found {other} {log.counts[other]} times",
                    advice=f"log the result of each evaluation as {key}, whatever its metric is.",
                )
            yield fault
    started = log.row and (log.row.strict or (log.free and log.row.data_set))
    if not started:
        return
    for one, other, where in ALTERNATIVE_EVENTS[: len(ALTERNATIVE_EVENTS) if log.free else 1]:
        if not (log.counts.get(one) or log.counts.get(other)):
            yield log.build_fault(
                f"neither {one} nor {other}", f"one of them when {where}", about=About.FORM
            )


def find_other_result_event(log: PublishedLog) -> str | None:
    """Return the event under which a log without eval_accuracy has the results of its evaluations;
    None if it has none.
    """
    if log.counts.get(events.EVAL_ACCURACY):
        return None
    found = [key for key in OTHER_RESULT_EVENTS if log.counts.get(key)]
    return max(found, key=log.counts.__getitem__, default=None)


@rule("log.event_type", PublishedLog)
def event_type(log: PublishedLog) -> Iterator[Fault]:
    """If records have an event type, start events have the type start and end events have the type
    end.

    Source: mlcommons/logging, mllog/constants.py: INTERVAL_START, INTERVAL_END, POINT_IN_TIME.
    Advice: log with mllog.start, mllog.end and mllog.event.
    """
    unsure = Severity.WARNING if log.free else None  # accepted logs of v1.0 differ
    keys = TYPED_EVENTS if log.free else tuple(log.index)
    for key in keys:
        if key.endswith("_start"):
            usual = START
        elif key.endswith("_stop"):
            usual = END
        else:
            usual = None
        for record in log.list_records(key):
            stated = record.interval
            if (
                stated != POINT
                and stated != usual
                and stated is not None
                and (usual or stated not in (START, END))
            ):
                yield log.build_fault(
                    f"{key} with event_type {format_short_value(stated)}",
                    f"{START}, {END} or {POINT}, matching the event",
                    record.line,
                    severity=unsure,
                )


@rule("log.once", PublishedLog, About.SCORE, doubt="the time to train, of which there are two")
def once(log: PublishedLog) -> Iterator[Fault]:
    """The end of initialisation and the start and end of the run occur once. Otherwise the log has
    two clocks.

    Source: mlcommons/logging, common.yaml: EXACTLY_ONE, which its checker does not enforce if the
    values are equal; no accepted log has two.
    Advice: log them from one process only, and submit one run per file.
    """
    if mixture := log.mixture:
        yield log.build_fault(mixture.found, mixture.required, mixture.line, advice=mixture.advice)
        return
    for key in log.round.events.once:
        if log.counts.get(key, 0) > 1 and not (log.older and key == events.RUN_START):
            yield log.build_fault(
                f"{key}: {log.counts[key]} records", "exactly 1", log.list_records(key)[1].line
            )


@rule("log.samples", PublishedLog, About.RULES, doubt="which data set the run used")
def samples(log: PublishedLog) -> Iterator[Fault]:
    """The log gives the sizes of the training and evaluation sets as numbers of samples.

    Source: mlcommons/logging, training_0.7.0/common.yaml, train_samples and eval_samples:
    EXACTLY_ONE.
    Advice: log both; Minigo, which generates its data, is exempt.
    """
    if log.row is None or not log.row.data_set:
        return
    for key in log.round.events.samples:
        if not log.counts.get(key):
            # no checker has read such logs
            unchecked = None
            if Dialect.SECONDS in log.dialects:
                unchecked = Severity.WARNING
            yield log.build_fault(f"no {key}", "a record", severity=unchecked)
        for record in log.list_records(key):
            stated = parse_finite_number(record.value)
            if record.value is not None and (stated is None or stated < 1):
                yield log.build_fault(
                    f"{key} {format_short_value(record.value)}", "a number of samples", record.line
                )


@rule("log.sizes", PublishedLog, severity=Severity.WARNING)
def sizes(log: PublishedLog) -> Iterator[Fault]:
    """The training and evaluation sets have the sizes of the benchmark's data set.

    Source: training_rules.adoc, Benchmarks, column Dataset; the benchmark's `sizes`. One accepted
    set has other sizes.
    Advice: log the samples of the whole set, not per process or step, and train and evaluate on all
    of them.
    """
    if not log.row:
        return
    for key, known in log.row.sizes.items():
        fine = (None, *known)
        other = next(
            (
                record
                for record in log.list_records(key)
                if record.value not in known and parse_finite_number(record.value) not in fine
            ),
            None,
        )
        if other:
            yield log.build_fault(
                f"{key} {format_short_value(other.value)}", " or ".join(map(str, known)), other.line
            )


@rule("log.place", PublishedLog, About.IDENTITY, doubt="whose result it is, and of which benchmark")
def place(log: PublishedLog) -> Iterator[Fault]:
    """Organisation and benchmark match the log's folders, ignoring case, spaces and punctuation. An
    organisation may have a longer name or initials.

    Source: submission_rules.adoc, Directory structure, which does not regulate how a name is spelt;
    logs of one organisation with another's name were accepted by oversight.
    Advice: log the organisation that ran the benchmark, and move the log to its benchmark's folder.
    """
    if log.place is None:
        return
    known = log.round.find_benchmark_name(log.place.benchmark)
    if log.place.benchmark and known is None:
        yield log.build_fault(
            f"the folder '{log.place.benchmark}'",
            f"a benchmark of the round: {', '.join(log.round.benchmarks)}",
        )
    wanted: tuple[tuple[str, str | None, Callable[[str, str], bool]], ...] = (
        (events.SUBMISSION_ORG, log.place.org, is_organisation_name),
        (
            events.SUBMISSION_BENCHMARK,
            known,
            lambda told, folder: log.round.find_benchmark_name(told) == folder,
        ),
    )
    for key, folder, same in wanted:
        if not folder:
            continue
        unsure = None
        if key == events.SUBMISSION_ORG and log.round.rules.placeholders:
            unsure = Severity.WARNING
        for record in log.list_records(key):
            if not same(str(record.value), folder):
                shown = mark_code_points(format_short_value(record.value), repr(folder))
                yield log.build_fault(
                    f"{key} {shown} in the folder of {folder}",
                    f"the name {mark_code_points(folder, str(record.value))}",
                    record.line,
                    severity=unsure,
                )


@rule("log.division", PublishedLog, About.IDENTITY, doubt="which division it is a result of")
def division(log: PublishedLog) -> Iterator[Fault]:
    """The division matches the folder above, if any, and the system description.

    Source: submission_rules.adoc, systems/<system_desc_id>.json: division.
    Advice: use separate systems for open and closed runs.
    """
    stated = log.find_record(events.SUBMISSION_DIVISION)
    if stated is None or not isinstance(stated.value, str) or log.place is None:
        return
    described = None
    if log.described:
        described = log.described.find_text("division")
    for name, where in (
        (log.place.division, "the folder"),
        (described, "the system's description"),
    ):
        if name and not fold_name(name).startswith(fold_name(stated.value)):
            yield log.build_fault(
                f"{stated.key} {format_short_value(stated.value)}, {where} says {name}",
                "one division",
                stated.line,
            )
