"""A published training log: hyperparameters are logged, constant and allowed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from functools import cache
from typing import Any, Final

from compliance.kinds.training.documents.log import PublishedLog
from compliance.kinds.training.logs.published import Dialect, PublishedRecord
from compliance.kinds.training.round import Disclosure, list_training_rounds, load_training_round
from compliance.kinds.training.rules.log_identity import TEXT_FORM_BATCH_KEY, format_short_value
from compliance.logs.finite_numbers import is_finite_number, parse_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events
from suite.rounds.constraints import Constraint
from suite.rounds.legality import check_hyperparameter_constraints, is_applicable

PUBLISHED_OPTIMIZER_KEY: Final = "opt_name"
BATCH_SIZE_KEYS: Final = ("global_batch_size", "train_batch_size", TEXT_FORM_BATCH_KEY)
SAMPLE_COUNT_KEYS: Final = frozenset(
    {
        events.TRAIN_SAMPLES,
        events.EVAL_SAMPLES,
        "num_train_examples",
        "num_eval_examples",
        "preproc_num_train_examples",
    }
)
CONSTANT_KEYS: Final = SAMPLE_COUNT_KEYS | {TEXT_FORM_BATCH_KEY, "input_size", "opt_learning_rate"}
"""Constant values that are not tunable: those of the text form, and the sizes of the data."""
VARYING_KEYS: Final = frozenset({"actual_selfplay_games_per_generation", events.SEED})
"""Keys that the rules know but that change within a run, or between runs."""
LEARNING_RATE_KEY: Final = "opt_base_learning_rate"
ACCUMULATION_STEPS_KEY: Final = "gradient_accumulation_steps"
LENGTH_LIMIT_METHODS: Final = ("truncate", "discard")


def collect_constant_settings(log: PublishedLog) -> Mapping[str, Any]:
    """Return the hyperparameters and other constants of a log, each with the value that the log
    names first.
    """
    return {
        key: log.find_value(key)
        for key in log.index.keys() & collect_constant_keys(log.round.hyperparameters, log.older)
    }


@cache
def collect_constant_keys(hyperparameters: frozenset[str], older: bool) -> frozenset[str]:
    """List the keys that have only one value in a log."""
    if older:
        return (hyperparameters | CONSTANT_KEYS) - VARYING_KEYS
    return (hyperparameters | CONSTANT_KEYS - {"opt_learning_rate"}) - VARYING_KEYS


@rule(
    "log.hyperparameters",
    PublishedLog,
    About.RULES,
    doubt="whether the run kept the closed division's hyperparameters",
)
def hyperparameters(log: PublishedLog) -> Iterator[Fault]:
    """In the closed division the log contains every hyperparameter required by the round's checker,
    before the run ends. A hyperparameter on a garbled line is unknown, which is a warning.

    Source: mlcommons/logging, closed_<benchmark>.yaml (v0.6: <benchmark>.yaml), REQ; the
    benchmark's `required`.
    Advice: log what the run used, under the names of mllog/constants.py.
    """
    if log.older or not log.closed or log.row is None:
        return
    stop = log.find_record(events.RUN_STOP)
    required = log.round.list_closed_required(
        log.benchmark or "", log.find_value(PUBLISHED_OPTIMIZER_KEY)
    )
    missing = [key for key in required if not log.counts.get(key)]
    unchecked = log.round.rules.loose or Dialect.SECONDS in log.dialects
    # a log with its own names, which no checker has read
    otherwise = None
    if unchecked and len(missing) > len(required) // 2:
        otherwise = Severity.WARNING
    for key in missing:
        found, severity = f"no {key}", otherwise
        if key in log.source.unread_keys:
            found, severity = f"{key} on a line that cannot be read", Severity.WARNING
        yield log.build_fault(found, "this hyperparameter", severity=severity)
    for record in filter(None, map(log.find_record, required)):
        if stop and record.order > stop.order and record.time_ns >= stop.time_ns:
            late = Severity.WARNING if log.free else None
            yield log.build_fault(
                f"{record.key} after run_stop",
                "the hyperparameter before the end of the run",
                record.line,
                severity=late,
            )


@rule("log.constant", PublishedLog, About.RULES, doubt="which hyperparameters the run used")
def constant(log: PublishedLog) -> Iterator[Fault]:
    """A hyperparameter has one value, even if it is logged several times.

    Source: training_rules.adoc, Hyperparameters; no accepted log of two rounds has two values for
    one hyperparameter.
    Advice: log each value once.
    """
    if log.row is None or not (log.row.strict or (log.free and log.row.data_set)):
        return
    known = collect_constant_keys(log.round.hyperparameters, log.older)
    for record in (
        record
        for key, records in log.index.items()
        if len(records) > 1 and key in known
        for record in records[1:]
    ):
        key, first = record.key, log.index[record.key][0]
        if record.value != first.value:
            yield log.build_fault(
                f"{key} {format_short_value(record.value)}, and {format_short_value(first.value)}"
                f" in line {first.line}",
                "one value",
                record.line,
            )


@rule("log.seed", PublishedLog, severity=Severity.WARNING)
def seed(log: PublishedLog) -> Iterator[Fault]:
    """A run logs one seed, which several processes may repeat.

    Source: training_rules.adoc, Random numbers: a run has one seed; accepted logs that log a seed
    log one.
    Advice: log the run's seed once.
    """
    records = log.list_records(events.SEED)
    other = next((record for record in records if record.value != records[0].value), None)
    if other and not log.older:
        yield log.build_fault(
            f"seed {format_short_value(other.value)}, and {format_short_value(records[0].value)} in"
            f" line {records[0].line}",
            "one seed",
            other.line,
        )


@rule(
    "log.batch",
    PublishedLog,
    About.RULES,
    doubt="the batch size, which decides the other hyperparameters",
)
def batch(log: PublishedLog) -> Iterator[Fault]:
    """In both divisions a batch size is a whole number above 0, and batch norm spans at most one
    batch.

    Source: mlcommons/logging, global_batch_size > 0; training_rules.adoc, table: model_bn_span,
    samples of a minibatch; no accepted log has other values.
    Advice: log the samples per step over all processes.
    """
    for key in BATCH_SIZE_KEYS:
        for record in log.list_records(key):
            if (
                not is_finite_number(record.value)
                or record.value != int(record.value)
                or record.value < 1
            ):
                yield log.build_fault(
                    f"{key} {format_short_value(record.value)}",
                    "a whole number above 0",
                    record.line,
                )
    span, whole = log.find_value("model_bn_span"), log.find_value(BATCH_SIZE_KEYS[0])
    if is_finite_number(span) and is_finite_number(whole) and span > whole:
        yield log.build_fault(
            f"model_bn_span {span}", f"at most global_batch_size, {whole}", "model_bn_span"
        )


@rule(
    "log.legality",
    PublishedLog,
    About.RULES,
    doubt="whether the run kept the closed division's hyperparameters",
)
def legality(log: PublishedLog) -> Iterator[Fault]:
    """In the closed division hyperparameters have values that the round allows.

    Source: training_rules.adoc, Hyperparameters, table; mlcommons/logging, closed_<benchmark>.yaml;
    the benchmark's constraints.
    Advice: choose an allowed value, or submit to the open division.
    """
    if log.older or not log.closed or log.row is None:
        return
    yield from check_constraints(
        log, {key: log.index[key][0] for key in collect_constant_settings(log)}
    )
    for record in (record for key in sorted(VARYING_KEYS) for record in log.list_records(key)):
        yield from check_constraints(log, {record.key: record})


def check_constraints(log: PublishedLog, records: Mapping[str, PublishedRecord]) -> Iterator[Fault]:
    """Check hyperparameters, each with the record that logs it, against the row's constraints."""
    constraints = log.row.constraints if log.row else ()
    values = {
        key: tuple(record.value) if isinstance(record.value, list) else record.value
        for key, record in records.items()
    }
    if unset := [key for key, value in values.items() if value is None or isinstance(value, dict)]:
        constrained = {
            key
            for constraint in constraints
            if is_applicable(constraint, values)
            for key in list_constrained_keys(constraint)
        }
        for key in sorted(constrained.intersection(unset)):
            yield log.build_fault(
                f"{key} {format_short_value(values[key])}", "a value", records[key].line
            )
        values = {key: value for key, value in values.items() if key not in unset}
    for violation in check_hyperparameter_constraints(constraints, values):
        yield log.build_fault(
            f"{violation.key} {format_short_value(violation.found)}",
            violation.required,
            records[violation.key].line,
        )


def list_constrained_keys(constraint: Constraint) -> tuple[str, ...]:
    """List the hyperparameters of a constraint: its own, and the one that it depends on."""
    if constraint.relation and not constraint.relation.is_equality:
        return (constraint.key, constraint.relation.of)
    return (constraint.key,)


@rule(
    "log.rates",
    PublishedLog,
    About.RULES,
    doubt="whether the run kept the closed division's hyperparameters",
)
def rates(log: PublishedLog) -> Iterator[Fault]:
    """A learning rate is a number of at least 0, and gradients are accumulated over whole steps.

    Source: training_rules.adoc, Hyperparameters: both are tunable, and both are numbers; no
    accepted log has another value. For a null value, or a log of the open division, a violation is
    only a warning.
    Advice: log what the run used.
    """
    if log.older or log.row is None or not log.free:
        return
    for key, holds, required in (
        (LEARNING_RATE_KEY, is_learning_rate, "a number of at least 0"),
        (ACCUMULATION_STEPS_KEY, is_step_count, "a whole number above 0"),
    ):
        wrong = next((record for record in log.list_records(key) if not holds(record.value)), None)
        # checked by log.legality, except for fractions of a step
        judged = log.closed and any(constraint.key == key for constraint in log.row.constraints)
        if wrong and not (judged and (not is_finite_number(wrong.value) or wrong.value <= 0)):
            sure = log.closed and wrong.value is not None and key in log.row.required
            yield log.build_fault(
                f"{key} {format_short_value(wrong.value)}",
                required,
                wrong.line,
                severity=None if sure else Severity.WARNING,
            )


def is_learning_rate(value: object) -> bool:
    """Return whether a value is a learning rate, also as text."""
    parsed = parse_finite_number(value)
    return parsed is not None and parsed >= 0


def is_step_count(value: object) -> bool:
    """Return whether a value is a whole number of steps, also as text."""
    parsed = parse_finite_number(value)
    return parsed is not None and parsed >= 1 and parsed.is_integer()


@rule("log.method", PublishedLog, About.RULES, doubt="which sentences the run trained on")
def method(log: PublishedLog) -> Iterator[Fault]:
    """A sequence length limit states its method: truncate or discard.

    Source: training_rules.adoc, Data Representation; mlcommons/logging,
    training_0.7.0/closed_transformer.yaml, max_sequence_length.
    Advice: log the method in the metadata.
    """
    if not log.closed or log.row is None:
        return
    for record in (record for key in log.row.method_keys for record in log.list_records(key)):
        stated = record.metadata.get("method")
        if stated not in LENGTH_LIMIT_METHODS:
            yield log.build_fault(
                f"{record.key} with method {format_short_value(stated)}",
                " or ".join(LENGTH_LIMIT_METHODS),
                record.line,
            )


@rule(
    "log.disclosure",
    PublishedLog,
    About.RULES,
    doubt="which precision and parallelism the run used",
)
def disclosure(log: PublishedLog) -> Iterator[Fault]:
    """Numeric precision, parallelism and configuration are logged, with values from the round. They
    are mandatory from v6.1 on.

    Source: mlcommons/logging, training_6.0.0/common.yaml (optional) and training_6.1.0/common.yaml:
    mandatory disclosure.
    Advice: log each of the keys once.
    """
    wanted = log.round.disclosure
    if wanted is None or log.row is None:
        return
    values = {key: log.find_value(key) for key in wanted.keys if log.counts.get(key)}
    if wanted.required:
        for key in wanted.keys:
            if key not in values:
                yield log.build_fault(f"no {key}", "a record")
    for key in sorted(key for key, value in values.items() if value is None):
        yield log.build_fault(f"{key} null", "a value", key)
    for violation in check_hyperparameter_constraints(
        wanted.constraints,
        {key: value for key, value in values.items() if isinstance(value, str | int | float)},
    ):
        fault = log.build_fault(
            f"{violation.key} {format_short_value(violation.found)}",
            violation.required,
            violation.key,
        )
        yield replace(fault, advice=advise_disclosed_value(log, violation.key, violation.found))


def advise_disclosed_value(log: PublishedLog, key: str, found: object) -> str | None:
    """Advise on a value that the round does not have: the word that is meant, or the round that has
    it; None without either.
    """
    wanted = log.round.disclosure
    if wanted:
        words = list_disclosure_words(wanted, key)
    else:
        words = ()
    if not words or not isinstance(found, str):
        return None
    if near := get_close_matches(found.casefold(), words, n=1):
        return f"'{found}' is written {near[0]}."
    for name in list_training_rounds():
        if name <= log.round.name:
            continue
        later = load_training_round(name).disclosure
        if later and found.casefold() in list_disclosure_words(later, key):
            return f"{found} is allowed from {name.removeprefix('training-')} on."
    return f"log one of {', '.join(words)}."


def list_disclosure_words(wanted: Disclosure, key: str) -> tuple[str, ...]:
    """List the words that a round allows for a key; empty if it is a number."""
    return next(
        (
            tuple(map(str, each.one_of))
            for each in wanted.constraints
            if each.key == key and each.one_of
        ),
        (),
    )
