"""A published training log: hyperparameters are logged, constant and allowed."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from compliance.documents.training.log import PublishedLog
from compliance.documents.training.values import finite, number
from compliance.logs.mllog.published import Dialect, Entry
from compliance.rules import rule
from compliance.rules.training.log_identity import BATCH, short
from compliance.verdict import Fault, Severity
from suite import events
from suite.rounds.constraints import Constraint
from suite.rounds.legality import applies, judge

OPTIMIZER: Final = "opt_name"
BATCHES: Final = ("global_batch_size", "train_batch_size", BATCH)
SAMPLES: Final = frozenset(
    {
        events.TRAIN_SAMPLES,
        events.EVAL_SAMPLES,
        "num_train_examples",
        "num_eval_examples",
        "preproc_num_train_examples",
    }
)
CONSTANTS: Final = SAMPLES | {BATCH, "input_size", "opt_learning_rate"}
"""What is no tunable and is as constant: of the text form, and the sizes of the data."""
VARYING: Final = frozenset({"actual_selfplay_games_per_generation", events.SEED})
"""What the rules know and what changes within a run, or from run to run."""
RATE: Final = "opt_base_learning_rate"
ACCUMULATED: Final = "gradient_accumulation_steps"
METHODS: Final = ("truncate", "discard")


def settings(log: PublishedLog) -> Mapping[str, Any]:
    """Give the hyper-parameters and other constants of a log with the values that it names
    first.
    """
    return {
        key: log.index[key][0].value
        for key in log.index.keys() & constants(log.round.hyperparameters, log.older)
    }


@cache
def constants(hyperparameters: frozenset[str], older: bool) -> frozenset[str]:
    """Name what a log has one value of."""
    return (
        hyperparameters | CONSTANTS
        if older
        else hyperparameters | CONSTANTS - {"opt_learning_rate"}
    ) - VARYING


@rule("log.hyperparameters", PublishedLog)
def hyperparameters(log: PublishedLog) -> Iterator[Fault]:
    """In the closed division the log contains every hyperparameter required by the round's checker,
    before the run ends.

    Source: mlcommons/logging, closed_<benchmark>.yaml (v0.6: <benchmark>.yaml), REQ; the
    benchmark's `required`.
    Advice: log what the run used, under the names of mllog/constants.py.
    """
    if log.older or not log.closed or log.row is None:
        return
    stop = log.first(events.RUN_STOP)
    asked = log.round.closed_required(log.benchmark or "", log.value(OPTIMIZER))
    missing = [key for key in asked if not log.counts.get(key)]
    unchecked = log.round.rules.loose or Dialect.SECONDS in log.dialects
    otherwise = (
        Severity.WARNING if unchecked and len(missing) > len(asked) // 2 else None
    )  # a log with names of its own, which no checker has read
    for key in missing:
        yield log.fault(f"no {key}", "this hyperparameter", severity=otherwise)
    for record in filter(None, map(log.first, asked)):
        if stop and record.order > stop.order and record.time_ns >= stop.time_ns:
            late = Severity.WARNING if log.free else None
            yield log.fault(
                f"{record.key} after run_stop",
                "the hyperparameter before the end of the run",
                record.line,
                late,
            )


@rule("log.constant", PublishedLog)
def constant(log: PublishedLog) -> Iterator[Fault]:
    """A hyperparameter has one value, even if it is logged several times.

    Source: training_rules.adoc, Hyperparameters; no accepted log of two rounds has two values of
    one.
    Advice: log each value once.
    """
    if log.row is None or not (log.row.strict or (log.free and log.row.data_set)):
        return
    known = constants(log.round.hyperparameters, log.older)
    for record in (
        record
        for key, records in log.index.items()
        if len(records) > 1 and key in known
        for record in records[1:]
    ):
        key, first = record.key, log.index[record.key][0]
        if record.value != first.value:
            yield log.fault(
                f"{key} {short(record.value)}, and {short(first.value)} in line {first.line}",
                "one value",
                record.line,
            )


@rule("log.seed", PublishedLog, severity=Severity.WARNING)
def seed(log: PublishedLog) -> Iterator[Fault]:
    """A run logs one seed; several processes may repeat it.

    Source: training_rules.adoc, Random numbers: a run has one seed; accepted logs that tell it tell
    one.
    Advice: log the seed that the run was started with, once.
    """
    records = log.all(events.SEED)
    other = next((record for record in records if record.value != records[0].value), None)
    if other and not log.older:
        yield log.fault(
            f"seed {short(other.value)}, and {short(records[0].value)} in line {records[0].line}",
            "one seed",
            other.line,
        )


@rule("log.batch", PublishedLog)
def batch(log: PublishedLog) -> Iterator[Fault]:
    """In both divisions a batch size is a whole number above 0, and batch norm spans at most one
    batch.

    Source: mlcommons/logging, global_batch_size > 0; training_rules.adoc, table: model_bn_span,
    samples of a minibatch; no accepted log has others.
    Advice: log the samples per step over all processes.
    """
    for key in BATCHES:
        for record in log.all(key):
            if not finite(record.value) or record.value != int(record.value) or record.value < 1:
                yield log.fault(
                    f"{key} {short(record.value)}", "a whole number above 0", record.line
                )
    span, whole = log.value("model_bn_span"), log.value(BATCHES[0])
    if finite(span) and finite(whole) and span > whole:
        yield log.fault(
            f"model_bn_span {span}",
            f"at most global_batch_size, {whole}",
            log.line("model_bn_span"),
        )


@rule("log.legality", PublishedLog)
def legality(log: PublishedLog) -> Iterator[Fault]:
    """In the closed division hyperparameters have values that the round allows.

    Source: training_rules.adoc, Hyperparameters, table; mlcommons/logging, closed_<benchmark>.yaml;
    the benchmark's constraints.
    Advice: choose an allowed value, or submit to the open division.
    """
    if log.older or not log.closed or log.row is None:
        return
    yield from illegal(log, {key: log.index[key][0] for key in settings(log)})
    for record in (record for key in sorted(VARYING) for record in log.all(key)):
        yield from illegal(log, {record.key: record})


def illegal(log: PublishedLog, records: Mapping[str, Entry]) -> Iterator[Fault]:
    """Hold hyper-parameters, each with the record that tells it, against the row's constraints."""
    constraints = log.row.constraints if log.row else ()
    values = {
        key: tuple(record.value) if isinstance(record.value, list) else record.value
        for key, record in records.items()
    }
    if unset := [key for key, value in values.items() if value is None or isinstance(value, dict)]:
        asked = {
            key
            for constraint in constraints
            if applies(constraint, values)
            for key in named(constraint)
        }
        for key in sorted(asked.intersection(unset)):
            yield log.fault(f"{key} {short(values[key])}", "a value", records[key].line)
        values = {key: value for key, value in values.items() if key not in unset}
    for breach in judge(constraints, values):
        yield log.fault(
            f"{breach.key} {short(breach.found)}", breach.required, records[breach.key].line
        )


def named(constraint: Constraint) -> tuple[str, ...]:
    """Name the hyper-parameters that a constraint is about: its own, and the one that it follows
    from.
    """
    return (
        (constraint.key, constraint.relation.of)
        if constraint.relation and not constraint.relation.equal
        else (constraint.key,)
    )


@rule("log.rates", PublishedLog)
def rates(log: PublishedLog) -> Iterator[Fault]:
    """A learning rate is a number from 0 on, and gradients are accumulated over whole steps.

    Source: training_rules.adoc, Hyperparameters: both are tunable, and both are numbers; no
    accepted log has another value. Logs that leave one null,
    or of the open division, are only warned.
    Advice: log what the run used.
    """
    if log.older or log.row is None or not log.free:
        return
    for key, holds, required in (
        (RATE, is_rate, "a number from 0 on"),
        (ACCUMULATED, is_count, "a whole number above 0"),
    ):
        wrong = next((record for record in log.all(key) if not holds(record.value)), None)
        judged = log.closed and any(
            constraint.key == key for constraint in log.row.constraints
        )  # by log.legality, but for fractions of a step
        if wrong and not (judged and (not finite(wrong.value) or wrong.value <= 0)):
            sure = log.closed and wrong.value is not None and key in log.row.required
            yield log.fault(
                f"{key} {short(wrong.value)}",
                required,
                wrong.line,
                None if sure else Severity.WARNING,
            )


def is_rate(value: object) -> bool:
    """Tell a learning rate, also as text."""
    told = number(value)
    return told is not None and told >= 0


def is_count(value: object) -> bool:
    """Tell a whole number of steps, also as text."""
    told = number(value)
    return told is not None and told >= 1 and told.is_integer()


@rule("log.method", PublishedLog)
def method(log: PublishedLog) -> Iterator[Fault]:
    """A sequence length limit states its method: truncate or discard.

    Source: training_rules.adoc, Data Representation; mlcommons/logging,
    training_0.7.0/closed_transformer.yaml, max_sequence_length.
    Advice: log the method in the metadata.
    """
    if not log.closed or log.row is None:
        return
    for record in (record for key in log.row.method_keys for record in log.all(key)):
        told = record.metadata.get("method")
        if told not in METHODS:
            yield log.fault(
                f"{record.key} with method {short(told)}", " or ".join(METHODS), record.line
            )
