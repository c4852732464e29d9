"""Check hyperparameters and settings: logged, correctly typed, constant, allowed."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from compliance.kinds.podium.documents.training import (
    HEADER_EVENTS,
    OPTIONAL_INIT_EVENTS,
    TrainingLog,
    is_logged_count,
)
from compliance.logs.finite_numbers import is_finite_number
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite import events, registry
from suite.errors import PodiumError
from suite.rounds import HyperValue, Setting, SettingKind
from suite.rounds.legality import check_hyperparameter_constraints, is_within_tolerance
from suite.rounds.ranges import describe_range, find_range_problem
from suite.rounds.settings import collect_workload_settings

SAMPLE_COUNT_EVENTS: Final = (events.TRAIN_SAMPLES, events.CORPUS_SAMPLES, events.EVAL_SAMPLES)
"""Sizes of the data, each logged once."""
OPTIMIZER_SETTING: Final = "opt_name"
"""The hyperparameter that names the optimizer in MLPerf's logs."""


@rule("training.constancy", TrainingLog, About.RULES)
def constancy(log: TrainingLog) -> Iterator[Fault]:
    """The log records each hyperparameter and fact once, with one value.

    Source: training_rules.adoc v0.7, Hyperparameters: constant in a run; no accepted run of two
    rounds logs two values.
    Advice: log each value once, before the clock starts.
    """
    facts = {*HEADER_EVENTS, *SAMPLE_COUNT_EVENTS, *events.DISCLOSED_EVENTS}
    known = set(select_logged_settings(log)) | facts
    for key in sorted(known & log.index.keys()):
        values = log.list_records(key)
        for record in values[1:]:
            if record.value != values[0].value:
                yield log.build_fault(
                    f"{key} {values[0].value!r}, then {record.value!r}", "one value", record.line
                )
            elif key not in HEADER_EVENTS:
                yield log.build_fault(f"{key} is logged twice", "exactly 1 record", record.line)


@rule("training.hyperparameters", TrainingLog, About.RULES)
def hyperparameters(log: TrainingLog) -> Iterator[Fault]:
    """The log contains every hyperparameter that the row requires, and those that the workload
    derives from the settings, with the derived values. A missing derived hyperparameter that the
    row does not require is a warning, since older workloads did not log it.

    Source: mlcommons/logging 0.7.0/closed_*.yaml, REQ; the row's `required`;
    Workload.select_hyperparameters.
    Advice: train again with this version of the workload, which logs its hyperparameters before the
    clock starts.
    """
    table, made = log.find_value(events.SETTINGS), compute_workload_hyperparameters(log)
    logged = {*log.index, *(table if isinstance(table, dict) else ())}
    wanted = {
        key: value for key, value in made.items() if key in logged
    }  # training.settings checks other settings
    required = log.training.required if log.training else ()
    for key in sorted({*wanted, *required, *(made.keys() - select_logged_settings(log).keys())}):
        record = log.find_record(key)
        if record is None:
            fault = log.build_fault(
                f"no {key}", "the hyperparameter, logged before init_stop", events.INIT_STOP
            )
            if key in wanted or key in required:
                yield fault
            else:
                yield replace(fault, severity=Severity.WARNING)
        elif key in wanted and not is_within_tolerance(
            convert_list_to_tuple(record.value), convert_list_to_tuple(wanted[key])
        ):
            yield log.build_fault(
                f"{key} {record.value!r}",
                f"{wanted[key]!r}, as derived from the settings",
                record.line,
            )


def compute_workload_hyperparameters(log: TrainingLog) -> Mapping[str, HyperValue]:
    """Return the hyperparameters that the workload logs with these settings; nothing if it is not
    installed or the settings are invalid.
    """
    if (
        log.workload is None
        or log.profile is None
        or not isinstance(log.find_value(events.SETTINGS), dict)
    ):
        return {}
    try:
        return registry.load_workload(log.workload).select_hyperparameters(log.round, log.settings)
    except (
        PodiumError,
        LookupError,
        ValueError,
        TypeError,
        ArithmeticError,
    ):  # settings are untrusted
        return {}


def convert_list_to_tuple(value: Any) -> Any:
    """Convert a list to the type that settings use."""
    return tuple(value) if isinstance(value, list) else value


def is_equal_setting(left: Any, right: Any) -> bool:
    """Compare two settings exactly, with any kind of list; True is not 1."""
    return isinstance(left, bool) is isinstance(right, bool) and convert_list_to_tuple(
        left
    ) == convert_list_to_tuple(right)


@rule("training.types", TrainingLog, About.RULES)
def types(log: TrainingLog) -> Iterator[Fault]:
    """A hyperparameter has its setting's type and, if the row lists choices, one of them.

    Source: the settings of the workload's row.
    Advice: log the value as used: a number as a number.
    """
    for key, setting in select_logged_settings(log).items():
        for record in log.list_records(key):
            if not is_value_of_setting(setting, record.value):
                yield log.build_fault(
                    f"{key} {record.value!r}",
                    f"{' or '.join(setting.choices) or setting.kind}",
                    record.line,
                )


def select_logged_settings(log: TrainingLog) -> Mapping[str, Setting]:
    """Return the names of the workload's logged settings."""
    if not log.row:
        return {}
    return {key: setting for key, setting in log.row.settings.items() if setting.log}


def is_value_of_setting(setting: Setting, value: object) -> bool:
    """Return whether a logged value has the setting's type."""
    if setting.choices:
        return value in setting.choices
    if setting.kind is SettingKind.FLOAT:
        return is_finite_number(value)
    if setting.kind is SettingKind.NUMBERS:
        return isinstance(value, list) and all(is_finite_number(each) for each in value)
    return (
        type(value)
        is {SettingKind.BOOL: bool, SettingKind.INT: int, SettingKind.TEXT: str}[setting.kind]
    )


@rule("training.legality", TrainingLog, About.RULES)
def legality(log: TrainingLog) -> Iterator[Fault]:
    """In the closed division, hyperparameters and the settings fixed by the round have allowed
    values.

    Source: training_rules.adoc v0.7, Hyperparameters, table; the row's constraints.
    Advice: choose an allowed value, or submit to the open division.
    """
    row = log.training
    if row is None or row.division != "closed":
        return
    values = {
        **log.settings,
        **{
            key: convert_list_to_tuple(value)
            for key in log.index
            if (value := log.find_value(key)) is not None
        },
    }
    for violation in check_hyperparameter_constraints(row.constraints, values):
        yield log.build_fault(
            f"{violation.key} {violation.found}",
            violation.required,
            log.find_line(violation.key) or log.find_line(events.SETTINGS),
        )


@rule("training.settings", TrainingLog, About.RULES)
def settings(log: TrainingLog) -> Iterator[Fault]:
    """A logged hyperparameter is among the settings with the same value, the log contains every
    setting, and numbers are in their settings' ranges. A setting that is missing from the log is a
    warning, since an older podium did not have it. The judge then assumes the row's value or the
    default.

    Source: house rule: a claim that its own log contradicts is an error; suite/rounds/settings.py,
    settle: the profile's settings and the user's.
    Advice: train again with the wanted settings; an older log without a new setting only gets a
    warning.
    """
    table = log.find_value(events.SETTINGS)
    if not isinstance(table, dict):
        return
    logged = {
        key: record for key in select_logged_settings(log) if (record := log.find_record(key))
    }
    for key, record in logged.items():
        if key in table and not is_within_tolerance(record.value, table[key]):
            yield log.build_fault(
                f"{key} {record.value!r}, but {table[key]!r} in the settings",
                "one value",
                record.line,
            )
    for key, setting in list_known_settings(log).items():
        if problem := find_range_problem(setting, table.get(key)):
            yield log.build_fault(f"{key}: {problem}", describe_range(setting), events.SETTINGS)
    settings = log.settings
    for key in sorted({*collect_required_settings(log), *logged} - table.keys()):
        if key in settings:
            assumed = f"{settings[key]!r}, which is the assumed value"
        else:
            assumed = "the profile's value, or the user's"
        fault = log.build_fault(f"no {key} among the settings", assumed, events.SETTINGS)
        yield fault if key in logged else replace(fault, severity=Severity.WARNING)


def list_known_settings(log: TrainingLog) -> Mapping[str, Setting]:
    """Return the round's settings and the workload's; none if it is not installed."""
    if not log.row:
        return {}
    return collect_workload_settings(log.round, log.row)


def collect_required_settings(log: TrainingLog) -> set[str]:
    """Return the names of the settings that a log must contain: the profile's, and those that its
    constraints fix although they are not hyperparameters.
    """
    if log.training is None:
        return set()
    fixed = {
        constraint.key
        for constraint in log.training.constraints
        if constraint.key not in select_logged_settings(log)
    }
    made = (
        compute_workload_hyperparameters(log).keys() & select_logged_settings(log).keys()
    )  # derived values that no one can set are not settings
    return {
        *(
            key
            for key in log.training.settings
            if not key.startswith(list_other_optimizer_prefixes(log))
        ),
        *made,
        *fixed,
    }


def list_other_optimizer_prefixes(log: TrainingLog) -> tuple[str, ...]:
    """Return the prefixes of the hyperparameters of unused optimizers: `lars_opt_` in a run with
    SGD (mlcommons/logging, closed_resnet.yaml).
    """
    setting = select_logged_settings(log).get(OPTIMIZER_SETTING)
    used = log.settings.get(OPTIMIZER_SETTING)
    if setting is None or used not in setting.choices:
        return ()
    return tuple(f"{name}_opt_" for name in setting.choices if name != used)


@rule("training.samples", TrainingLog, About.RULES)
def samples(log: TrainingLog) -> Iterator[Fault]:
    """A run trains and evaluates on the row's number of samples.

    Source: the row's train_samples, earlier_train_samples, corpus_samples and eval_samples.
    Advice: train on the profile's whole data set; smoke uses the embedded data, without --data.
    """
    if log.training is None:
        return
    for key, (fewest, most) in log.training.collect_sample_limits().items():
        value = log.find_value(key)
        earlier = key == events.TRAIN_SAMPLES and value in log.training.earlier_train_samples
        if (
            (log.list_records(key) or key in OPTIONAL_INIT_EVENTS)
            and not earlier
            and not (is_logged_count(value) and fewest <= value <= most)
        ):
            yield log.build_fault(
                f"{key} {value!r}", f"{fewest}" if fewest == most else f"{fewest} to {most}", key
            )


@rule("training.shuffled", TrainingLog, About.QUALITY, severity=Severity.WARNING)
def shuffled(log: TrainingLog) -> Iterator[Fault]:
    """A run on shuffled labels is a negative control, never a result.

    Source: house rule, data.shuffle_labels.
    Advice: train without data.shuffle_labels.
    """
    table = log.find_value(events.SETTINGS)
    if isinstance(table, dict) and table.get("data.shuffle_labels") is True:
        yield log.build_fault("data.shuffle_labels true", "false", events.SETTINGS)
