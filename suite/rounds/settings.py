"""Resolves `--config FILE` and `--set KEY=VALUE` to the settings of one run, validated against the
round.

In increasing precedence: the setting's default, the profile's row, the recipe for that global batch
size, the config file, --set.
"""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from suite.errors import RequestError, unknown
from suite.files.untrusted_files import UnreadableError, read_toml, toml
from suite.loadgen.scenario import Scenario
from suite.rounds import Benchmark, HyperValue, Kind, Profile, Round, Setting
from suite.workload import Mode

BATCH = "global_batch_size"
SCENARIOS: Final = {
    "server.": Scenario.SERVER,
    "offline.": Scenario.OFFLINE,
    "single_stream.": Scenario.SINGLE_STREAM,
    "multi_stream.": Scenario.MULTI_STREAM,
}
"""Prefix of a setting's name -> the only scenario that it affects."""
TIMED: Final = (*SCENARIOS, "loadgen.")
"""Prefixes of settings that affect performance runs only."""


def catalogue(round: Round, benchmark: Benchmark) -> Mapping[str, Setting]:
    """Return every setting of a workload: the round's and its own."""
    return {**round.settings, **benchmark.settings}


def settle(
    round: Round,
    workload: str,
    profile: Profile,
    chosen: Mapping[str, HyperValue],
    *,
    serving: bool = False,
) -> dict[str, HyperValue]:
    """Fill in what the user did not set; if both halves of a row set a value, the requested half
    wins, training or serving.
    """
    row = round.benchmark(workload)
    training, inference = row.training.get(profile), row.inference.get(profile)
    values = {
        key: setting.default
        for key, setting in catalogue(round, row).items()
        if setting.default is not None
    }
    trained = dict(training.settings) if training else {}
    served = dict(inference.settings) if inference else {}
    values |= trained | served if serving else served | trained
    if training:
        values |= recipe(training.recipes, chosen.get(BATCH, values.get(BATCH)))
    return values | dict(chosen)


def recipe(
    recipes: Iterable[Mapping[str, HyperValue]], batch: HyperValue | None
) -> Mapping[str, HyperValue]:
    """Return the reference convergence point for a global batch size, or nothing."""
    return next((entry for entry in recipes if entry.get(BATCH) == batch), {})


def choose(
    known: Mapping[str, Setting], config: Path | None, assignments: Iterable[str]
) -> dict[str, HyperValue]:
    """Read the config file and the assignments; RequestError for an unknown key (naming the
    nearest) or a wrong type.
    """
    chosen = read_config(known, config) if config else {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise RequestError(f"--set {assignment}: write KEY=VALUE")
        chosen[key] = convert(lookup(known, key), key, parse(text))
    return chosen


def read_config(known: Mapping[str, Setting], path: Path) -> dict[str, HyperValue]:
    """Read a TOML file of settings; tables are joined to dotted keys."""
    try:
        table = read_toml(path)
    except UnreadableError as error:
        raise RequestError(f"--config {error}") from error
    return {key: convert(lookup(known, key), key, value) for key, value in flatten(table).items()}


def flatten(table: Mapping[str, Any]) -> dict[str, Any]:
    """Join nested tables to dotted keys."""
    flat: dict[str, Any] = {}
    waiting: list[tuple[str, Mapping[str, Any]]] = [("", table)]
    while waiting:
        prefix, inner = waiting.pop()
        for key, value in inner.items():
            if isinstance(value, dict):
                waiting.append((f"{prefix}{key}.", value))
            else:
                flat[prefix + key] = value
    return flat


def lookup(known: Mapping[str, Setting], key: str) -> Setting:
    """Find a setting; RequestError names the nearest."""
    if key not in known:
        raise unknown("setting", key, known)
    return known[key]


def parse(text: str) -> Any:
    """Parse a value as TOML; anything else is text."""
    try:
        return toml(f"value = {text}")["value"]
    except ValueError:
        return text


def convert(setting: Setting, key: str, value: Any) -> HyperValue:
    """Check the value's type; RequestError names the expected one."""
    if any(
        type(entry) is float and not math.isfinite(entry)
        for entry in (value if isinstance(value, list) else [value])
    ):
        raise RequestError(f"setting {key}: {value!r} is not finite")
    if setting.kind is Kind.TEXT and type(value) in (int, float):
        value = str(value)  # before the choices, which are text
    if setting.choices and value not in setting.choices:
        raise unknown(f"value of {key}", str(value), setting.choices)
    if setting.kind is Kind.FLOAT and type(value) is int:
        return float(value)
    if (
        setting.kind is Kind.NUMBERS
        and isinstance(value, list)
        and all(type(entry) in (int, float) for entry in value)
    ):
        return tuple(value)
    if type(value) is not {Kind.BOOL: bool, Kind.INT: int, Kind.FLOAT: float, Kind.TEXT: str}.get(
        setting.kind
    ):
        raise RequestError(f"setting {key}: {value!r} is not of type {setting.kind}")
    return cast(HyperValue, value)


def matters(setting: str, scenario: str, mode: str) -> bool:
    """Return whether a serving setting affects the runs of a scenario (LoadGen's name) and mode."""
    if setting.startswith(TIMED):
        others = {beginning for beginning, its in SCENARIOS.items() if its.label != scenario}
        return mode == Mode.PERFORMANCE and not setting.startswith(tuple(others))
    return True
