"""Resolves `--config FILE` and `--set KEY=VALUE` to the settings of one run, validated against the
round.

In increasing precedence: the setting's default, the profile's row, the recipe for that global batch
size, the config file, --set.
"""

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, cast

from suite.errors import RequestError, build_unknown_name_error
from suite.files.foreign_content import describe_foreign_file
from suite.files.untrusted_files import (
    UnreadableError,
    parse_toml,
    read_untrusted_text,
    read_untrusted_toml,
)
from suite.loadgen.scenario import Scenario
from suite.rounds import (
    TOKEN_BOUNDS_SETTING,
    Benchmark,
    HyperValue,
    Profile,
    Round,
    Setting,
    SettingKind,
)
from suite.rounds.ranges import find_range_problem
from suite.workload import Mode

LARGE_INTEGER: Final = re.compile(r"[+-]?[0-9_]{19,}")
"""A whole number, of so many digits that it may have more than 64 bits."""
LOADGEN_SETTING: Final = re.compile(
    r"\s*[\w*.-]+\.(?P<scenario>Server|Offline|SingleStream|MultiStream)\.(?P<key>\w+)\s*="
    r"\s*(?P<value>[^\s#]+)"
)
"""A line of LoadGen's user.conf: model, scenario, key and value."""
YAML_BEGIN: Final = re.compile(r"---|%YAML|\s*- |\s*[\w.*\"'-]+\s*:(\s|$)")
"""First line of a document of YAML: a marker, an item of a list, or a key."""
MAX_SHOWN_DIGITS: Final = 40
AUTOMATIC_VALUE: Final = "auto"
"""The value by which the machine decides, where a setting allows that."""
DATA_WORKERS_SETTING: Final = "data.workers"
GRADIENT_FORMAT_SETTING: Final = "train.gradient_format"
"""Number format in which ranks exchange gradients; a run without it exchanges fp32."""
FAMILY_END: Final = ".*"
"""End of the name of a setting that stands for many."""
GLOBAL_BATCH_SIZE = "global_batch_size"
SCENARIO_BY_PREFIX: Final = {
    "server.": Scenario.SERVER,
    "offline.": Scenario.OFFLINE,
    "single_stream.": Scenario.SINGLE_STREAM,
    "multi_stream.": Scenario.MULTI_STREAM,
}
"""Prefix of a setting's name -> the only scenario that it affects."""
PERFORMANCE_PREFIXES: Final = (*SCENARIO_BY_PREFIX, "loadgen.")
HELD_SIGN: Final = "held"
"""First word of the reason of a setting that the judge holds by another rule."""
"""Prefixes of settings that affect performance runs only."""


def collect_workload_settings(round: Round, benchmark: Benchmark) -> Mapping[str, Setting]:
    """Return every setting of a workload: the round's and its own."""
    return {**round.settings, **benchmark.settings}


def resolve_settings(
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
        for key, setting in collect_workload_settings(round, row).items()
        if setting.default is not None
    }
    trained = dict(training.settings) if training else {}
    served = dict(inference.settings) if inference else {}
    values |= trained | served if serving else served | trained
    if training:
        values |= select_recipe(
            training.recipes, chosen.get(GLOBAL_BATCH_SIZE, values.get(GLOBAL_BATCH_SIZE))
        )
    return values | dict(chosen)


def select_recipe(
    recipes: Iterable[Mapping[str, HyperValue]], batch: HyperValue | None
) -> Mapping[str, HyperValue]:
    """Return the reference convergence point for a global batch size, or nothing."""
    return next((entry for entry in recipes if entry.get(GLOBAL_BATCH_SIZE) == batch), {})


def read_chosen_settings(
    known: Mapping[str, Setting], config: Path | None, assignments: Iterable[str]
) -> dict[str, HyperValue]:
    """Read the config file and the assignments; RequestError for an unknown key (naming the
    nearest) or a wrong type.
    """
    chosen = read_settings_file(known, config) if config else {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise RequestError(f"--set {assignment}: write KEY=VALUE")
        chosen[key] = convert_setting_value(
            require_setting(known, key), key, parse_setting_value(text)
        )
    return chosen


def suggest_settings_form(path: Path) -> str:
    """Say what a file is that is no TOML, and how what LoadGen's user.conf, YAML or JSON says is
    written; "" for a TOML file with an error.
    """
    if said := describe_foreign_file(path, "TOML"):
        return said
    try:
        lines = read_untrusted_text(path).splitlines()
    except UnreadableError:
        return ""
    if form := find_document_form(lines):
        return f"no TOML, but {form}; write server.target_qps = 100.0, a setting a line"
    found = next(filter(None, map(LOADGEN_SETTING.match, lines)), None)
    if found is None:
        return ""
    key = f"{found['scenario'].lower()}.{found['key']}"
    return f"no TOML; a LoadGen user.conf? write {key} = {found['value']}"


def find_document_form(lines: Iterable[str]) -> str:
    """Return which other form a file of settings has, by its first line that says something; "" for
    none that is known.
    """
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    if first.lstrip().startswith("{"):
        return "JSON"
    return "YAML" if YAML_BEGIN.match(first) else ""


def read_settings_file(known: Mapping[str, Setting], path: Path) -> dict[str, HyperValue]:
    """Read a TOML file of settings; tables are joined to dotted keys."""
    try:
        table = read_untrusted_toml(path)
    except UnreadableError as error:
        form = suggest_settings_form(path)
        if not form:
            raise RequestError(f"--config {error}") from error
        raise RequestError(
            f"--config {path}{'' if form.startswith('is ') else ':'} {form}"
        ) from error
    return {
        key: convert_setting_value(require_setting(known, key), key, value)
        for key, value in flatten_settings_table(table).items()
    }


def flatten_settings_table(table: Mapping[str, Any]) -> dict[str, Any]:
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


def require_setting(known: Mapping[str, Setting], key: str) -> Setting:
    """Find a setting; RequestError names the nearest. One whose name ends in `.*` stands for all
    names that begin so.
    """
    family = f"{key.rpartition('.')[0]}{FAMILY_END}"
    if key not in known and (family not in known or key.endswith(".")):
        raise build_unknown_name_error("setting", key, known)
    return known[key if key in known else family]


def parse_setting_value(text: str) -> Any:
    """Parse a value as TOML; anything else is text, whole numbers of more than 64 bits too."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def convert_setting_value(setting: Setting, key: str, value: Any) -> HyperValue:
    """Check the value's type and range; RequestError names the expected one."""
    converted = convert_setting_type(setting, key, value)
    if problem := find_range_problem(setting, converted):
        raise RequestError(f"setting {key}: {problem}")
    return converted


def convert_setting_type(setting: Setting, key: str, value: Any) -> HyperValue:
    """Check the value's type and choices; RequestError names the expected ones."""
    entries = value if isinstance(value, list) else [value]
    if any(type(entry) is float and not math.isfinite(entry) for entry in entries):
        raise RequestError(f"setting {key}: {value!r} is not finite")
    if setting.kind is not SettingKind.TEXT and (problem := describe_large_integer(value)):
        raise RequestError(f"setting {key}: {problem}")
    if setting.kind is SettingKind.TEXT and type(value) in (int, float):
        value = str(value)  # before the choices, which are text
    if setting.automatic and value == AUTOMATIC_VALUE:
        return AUTOMATIC_VALUE
    if setting.choices and value not in setting.choices:
        raise build_unknown_name_error(f"value of {key}", str(value), setting.choices)
    if setting.kind is SettingKind.FLOAT and type(value) is int:
        value = float(value)
    is_list = setting.kind is SettingKind.NUMBERS and isinstance(value, list)
    if is_list and all(type(entry) in (int, float) for entry in value):
        value = tuple(value)
    elif type(value) is not {
        SettingKind.BOOL: bool,
        SettingKind.INT: int,
        SettingKind.FLOAT: float,
        SettingKind.TEXT: str,
    }.get(setting.kind):
        raise RequestError(f"setting {key}: {value!r} is not of type {setting.kind}")
    return cast(HyperValue, value)


def describe_freedom(setting: Setting) -> str:
    """Return `free` if the closed division leaves a setting to the user, else `held`."""
    if setting.free and not setting.free.startswith(HELD_SIGN):
        return "free"
    return HELD_SIGN


def describe_large_integer(value: Any) -> str:
    """Say that a value is a whole number beyond 64 bits, which is read as text; else ""."""
    if not isinstance(value, str) or not LARGE_INTEGER.fullmatch(value):
        return ""
    if len(value) <= MAX_SHOWN_DIGITS:
        shown = value
    else:
        shown = f"{value[:MAX_SHOWN_DIGITS]}..."
    return f"{shown} is too {'small' if value.startswith('-') else 'large'}"


def can_affect_run(setting: str, scenario: str, mode: str) -> bool:
    """Return whether a serving setting affects the runs of a scenario (LoadGen's name) and mode."""
    if setting.startswith(PERFORMANCE_PREFIXES):
        others = {
            beginning for beginning, its in SCENARIO_BY_PREFIX.items() if its.label != scenario
        }
        return mode == Mode.PERFORMANCE and not setting.startswith(tuple(others))
    return True


def select_task_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that define the data, without decoder and number of workers, and the
    bounds that Server was held to.
    """
    return {
        key: value
        for key, value in settings.items()
        if key == TOKEN_BOUNDS_SETTING or (key.startswith("data.") and key != "data.workers")
    }
