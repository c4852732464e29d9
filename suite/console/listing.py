"""`podium list`: workloads with model, data, target, time and memory; settings with kind, value and
meaning.
"""

import json
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final

from suite import registry
from suite.errors import MissingError
from suite.plugin_problems import GROUP_KINDS, PluginProblem, iterate_plugin_problems
from suite.rounds import Benchmark, HyperValue, Profile, Setting
from suite.rounds.quality import format_target_value
from suite.rounds.ranges import describe_range
from suite.rounds.settings import (
    AUTOMATIC_VALUE,
    collect_workload_settings,
    describe_freedom,
    resolve_settings,
)
from suite.terms import Division

MAX_LISTING_WIDTH: Final = 100
MIN_LISTING_WIDTH: Final = 60


def format_installed_parts(output_format: str) -> str:
    """List what is installed, as text or JSON."""
    rows = {
        name: registry.load_round().benchmarks[name]
        for name in registry.map_entry_points(registry.WORKLOAD_GROUP)
        if name in registry.load_round().benchmarks
    }
    found = {
        "workloads": sorted(registry.map_entry_points(registry.WORKLOAD_GROUP)),
        "engines": sorted(registry.map_entry_points(registry.ENGINE_GROUP)),
        "inputs": sorted(registry.map_entry_points(registry.INPUT_GROUP)),
        "rounds": list(registry.list_round_names()),
    }
    problems = list(iterate_plugin_problems())
    if output_format == "json":
        return json.dumps(
            {
                **found,
                "details": {name: describe_workload_row(row) for name, row in rows.items()},
                "problems": [each.describe_facts() for each in problems],
            }
        )
    lines = [
        line for name in found["workloads"] for line in format_workload_lines(name, rows.get(name))
    ]
    marks = [
        f"{name} (not installed)" if is_engine_missing(name) else name for name in found["engines"]
    ]
    lines += [
        "",
        f"engines    {', '.join(marks)}",
        f"inputs     {', '.join(found['inputs'])}",
        f"rounds     {', '.join(found['rounds'])}",
        "",
    ]
    if problems:
        lines += ["Packages that do not fit:", *map(format_problem, problems), ""]
    measurement_note = (
        "smoke: approximate time and memory of `podium run` in that profile, on two CPU cores."
    )
    return "\n".join([*lines, measurement_note, "More: podium list settings WORKLOAD"])


def format_problem(problem: PluginProblem) -> str:
    """Return one sentence about what cannot be used of another package."""
    place = f"{problem.package}, {GROUP_KINDS.get(problem.group, problem.group)}"
    return f"{place} '{problem.name}' ({problem.group}): {problem.sentence}"


def describe_workload_row(row: Benchmark) -> dict[str, Any]:
    """Return the facts about a workload."""
    targets = {profile.value: dict(half.target) for profile, half in row.training.items()}
    return {
        "title": row.title,
        "data": row.data,
        "targets": targets,
        "lower_is_better": list(row.lower_is_better),
        "smoke_minutes": row.smoke_minutes,
        "smoke_memory_gb": row.smoke_memory_gb,
    }


def format_workload_lines(name: str, row: Benchmark | None) -> Iterator[str]:
    """Yield the lines about one workload."""
    if row is None:
        yield f"{name:<12} no row in round {registry.DEFAULT_ROUND}"
        return
    yield f"{name:<12} {row.title}"
    targets = {
        profile.value: ", ".join(
            f"{metric} {format_target_value(metric, f'{value:g}', row.lower_is_better)}"
            for metric, value in half.target.items()
        )
        for profile, half in row.training.items()
    }
    yield from wrap_below_name(
        "target: " + "; ".join(f"{profile} {target}" for profile, target in targets.items())
    )
    own = ""
    if row.embedded:
        own = f"{' and '.join(row.embedded)}: from the workload's package"
    yield from wrap_below_name(
        "data: " + "; ".join(filter(None, [own, row.data and f"--data DIR: {row.data}"]))
    )
    cost = [
        f"{row.smoke_minutes:g} minutes" if row.smoke_minutes else "",
        f"{row.smoke_memory_gb:g} GB of memory" if row.smoke_memory_gb else "",
    ]
    if any(cost):
        yield from wrap_below_name(f"smoke: {', '.join(filter(None, cost))}")


def wrap_below_name(text: str) -> list[str]:
    """Wrap a text and indent it below a workload's name."""
    width = min(MAX_LISTING_WIDTH, max(MIN_LISTING_WIDTH, shutil.get_terminal_size().columns))
    return textwrap.wrap(
        text, width, initial_indent=" " * 13, subsequent_indent=" " * 15, break_long_words=False
    )


def is_engine_missing(engine: str) -> bool:
    """Return whether an engine's packages are missing."""
    try:
        registry.load_engine(engine)
    except MissingError:
        return True
    return False


def format_settings_list(workload: str, profile: Profile, output_format: str) -> str:
    """List the settings that `--set` and `--config` accept, with their values under a profile."""
    row = registry.load_round().benchmark(workload)
    known = collect_workload_settings(registry.load_round(), row)
    values = resolve_settings(
        registry.load_round(), workload, profile, {}, serving=profile not in row.training
    )
    if output_format == "json":
        descriptions = {
            key: describe_setting(setting, values.get(key))
            for key, setting in sorted(known.items())
        }
        return json.dumps({"workload": workload, "profile": profile, "settings": descriptions})
    half = row.training.get(profile) or row.inference[profile]
    closed = half.division is Division.CLOSED
    lines = [
        line
        for key, setting in sorted(known.items())
        for line in format_setting_lines(key, setting, values, closed)
    ]
    title = f"{workload}, profile {profile}: --set KEY=VALUE"
    if closed:
        title += "; free or held in the closed division"
    return "\n".join([title, "", *lines])


def describe_setting(setting: Setting, value: HyperValue | None) -> dict[str, Any]:
    """Return the facts about a setting."""
    return {
        "kind": setting.kind,
        "value": value,
        "choices": setting.choices,
        "automatic": setting.automatic,
        "minimum": setting.minimum,
        "above": setting.above,
        "maximum": setting.maximum,
        "help": setting.help,
        "hyperparameter": setting.log,
        "free": setting.free,
    }


def format_setting_lines(
    key: str, setting: Setting, values: Mapping[str, HyperValue], closed: bool
) -> Iterator[str]:
    """Yield the lines about one setting; a setting without a value is derived from others."""
    kind = "|".join(setting.choices) or setting.kind.value
    if setting.automatic:
        kind += f"|{AUTOMATIC_VALUE}"
    if legal := describe_range(setting):
        kind += f", {legal}"
    if closed:
        kind += f"; {describe_freedom(setting)}"
    if key in values:
        yield f"{key} = {values[key]}  ({kind})"
    else:
        yield f"{key}  ({kind})"
    yield from textwrap.wrap(setting.help, 76, initial_indent="    ", subsequent_indent="    ")
