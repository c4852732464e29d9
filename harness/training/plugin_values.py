"""Checks the hyper-parameters and facts of a workload, before the clock: another package may have
written it.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from harness.request import RunRequest
from suite import events, plugins, registry
from suite.errors import RequestError
from suite.rounds import TrainingRow
from suite.rounds.settings import convert_setting_value


def check_hyperparameters(request: RunRequest, row: TrainingRow, given: object) -> None:
    """Refuse hyper-parameters that cannot be logged, lack one that the row requires, or differ from
    their setting's type.
    """
    raise_plugin_problems(
        request, "hyperparameters", find_hyperparameter_problems(request, row, given)
    )


def check_facts(request: RunRequest, row: TrainingRow, given: object) -> None:
    """Refuse facts that cannot be logged: data sizes must be whole numbers above 0, and the metric
    must be named.
    """
    raise_plugin_problems(request, "facts", find_fact_problems(row, given))


def raise_plugin_problems(request: RunRequest, what: str, problems: Iterator[str]) -> None:
    """Raise a RequestError that names the package, if there are problems."""
    if found := list(problems):
        point = registry.map_entry_points(registry.WORKLOAD_GROUP).get(request.name)
        package = ""
        if point:
            package = f" of package {plugins.describe_package(point)}"
        raise RequestError(f"{request.name}: {what}{package}: {'; '.join(found)}")


def find_hyperparameter_problems(
    request: RunRequest, row: TrainingRow, given: object
) -> Iterator[str]:
    """Yield the problems of hyper-parameters."""
    yield from find_unloggable_values(given)
    values = given if isinstance(given, Mapping) else {}
    yield from (f"{key} is missing" for key in row.required if key not in values)
    for key, setting in request.row.settings.items():
        if key not in values:
            continue
        try:
            convert_setting_value(setting, key, convert_tuple_to_list(values[key]))
        except RequestError as error:
            yield str(error).removeprefix("setting ")


def find_fact_problems(row: TrainingRow, given: object) -> Iterator[str]:
    """Yield the problems of facts."""
    yield from find_unloggable_values(given)
    facts = given if isinstance(given, Mapping) else {}
    for key in dict.fromkeys(
        (events.TRAIN_SAMPLES, events.EVAL_SAMPLES, *row.collect_sample_limits())
    ):
        if type(facts.get(key)) is not int or facts[key] < 1:
            if key in facts:
                yield f"{key} is {facts[key]!r}, not a whole number above 0"
            else:
                yield f"{key} is missing"
    signature = facts.get(events.METRIC_SIGNATURE)
    if not (isinstance(signature, str) and signature.strip()):
        yield (
            f"{events.METRIC_SIGNATURE} is"
            f" {'missing' if signature is None else f'{signature!r}, not a text'}"
        )


def find_unloggable_values(given: object) -> Iterator[str]:
    """Yield what a log cannot hold: anything but a table of names with numbers, texts, flags and
    lists of numbers.
    """
    if not isinstance(given, Mapping):
        yield f"{type(given).__name__}, not a mapping"
        return
    for key, value in given.items():
        entries = value if isinstance(value, tuple | list) else (value,)
        if not isinstance(key, str):
            yield f"the name {key!r} is not a text"
        elif not all(is_loggable_value(each) for each in entries):
            yield f"{key} is {value!r}, not a finite number, text, flag or list of numbers"


def is_loggable_value(value: object) -> bool:
    """Check whether a log can hold a value as it is."""
    return type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value))


def convert_tuple_to_list(value: Any) -> Any:
    """Convert a list of numbers to its type in a settings file."""
    if isinstance(value, tuple):
        return list(value)
    return value
