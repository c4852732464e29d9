"""Tables of all settings, made of the rows of podium's own round: one of the settings that every
workload has, and one for each workload.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from rules import cell

from suite import registry
from suite.rounds import Benchmark, HyperValue, Profile, Round, Setting
from suite.rounds.ranges import describe_range
from suite.rounds.settings import AUTOMATIC_VALUE, describe_freedom, resolve_settings

MARKER: Final = "::: podium-settings\n"
"""The line of the page that the tables replace."""
DEFAULT_COLUMN: Final = "default"
ABSENT: Final = "-"


def insert_settings(page: str) -> str:
    """Replace the marker of the page by the tables."""
    return page.replace(MARKER, "\n".join(iterate_sections(registry.load_round())))


def iterate_sections(round: Round) -> Iterator[str]:
    """Write the section of the shared settings, then one for each workload."""
    workloads = sorted(set(registry.map_entry_points(registry.WORKLOAD_GROUP)))
    rows = {name: round.benchmark(name) for name in workloads if name in round.benchmarks}
    yield "## Every workload\n"
    yield build_table(round.settings, {DEFAULT_COLUMN: {}})
    for name, row in rows.items():
        yield f"## {row.title} (`{name}`)\n"
        own = select_own_settings(round, row)
        yield build_table(own, resolve_profiles(round, name))


def select_own_settings(round: Round, row: Benchmark) -> Mapping[str, Setting]:
    """Return the settings that a workload declares, and those of the round that its rows set."""
    changed = {
        key
        for half in (*row.training.values(), *row.inference.values())
        for key in half.settings
        if key in round.settings
    }
    return {**{key: round.settings[key] for key in changed}, **row.settings}


def resolve_profiles(round: Round, name: str) -> dict[str, dict[str, HyperValue]]:
    """Return the values of all settings in each profile; where training and serving differ, those
    of training.
    """
    return {f"`{profile}`": resolve_settings(round, name, profile, {}) for profile in Profile}


def build_table(
    settings: Mapping[str, Setting], values: Mapping[str, Mapping[str, HyperValue]]
) -> str:
    """Write a table of settings, sorted by name, with a column for each set of values."""
    titles = ["setting", "type", *values, "closed", "meaning"]
    head = f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}\n"
    rows = (
        build_row(key, setting, [own.get(key, setting.default) for own in values.values()])
        for key, setting in sorted(settings.items())
    )
    return head + "".join(rows)


def build_row(key: str, setting: Setting, values: Iterable[HyperValue | None]) -> str:
    """Write the row of a setting."""
    shown = " | ".join(map(format_value, values))
    return (
        f"| `{key}` | {cell(describe_type(setting))} | {shown} | {describe_freedom(setting)} |"
        f" {cell(setting.help)} |\n"
    )


def format_value(value: HyperValue | None) -> str:
    """Write a value as TOML and `--set` have it."""
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    return cell(f"{value}")


def describe_type(setting: Setting) -> str:
    """Name the values that a setting takes."""
    kind = " or ".join(setting.choices) or setting.kind.value
    if setting.automatic:
        kind += f" or {AUTOMATIC_VALUE}"
    return "; ".join(filter(None, [kind, describe_range(setting)]))
