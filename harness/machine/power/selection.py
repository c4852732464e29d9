"""Power sources of a run: --power and --meter, resolved to what the sampler opens."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from harness.machine.power.chosen import ChosenPower
from harness.machine.telemetry.sampled import SourceOpening
from suite import plugins, registry
from suite.errors import MissingError, RequestError
from suite.power import PERIOD_MS, ROOT, PowerSource
from suite.rounds import HyperValue

AUTO, OFF = "auto", "off"
REHEARSAL_VARIABLE: Final = "PODIUM_POWER_ROOT"
"""Variable that replaces the root /: a rehearsal on made-up files, which the judge never
accepts.
"""
PERIOD_SETTING: Final = "power.period_ms"
SOURCES_MODULE: Final = "harness.machine.power.sampled"
LINGER_PERIODS: Final = 2
"""Periods that the sampler continues after a run, so that there are readings after its end."""


def resolve_power_root() -> Path:
    """Return the root of the kernel's files."""
    return Path(os.environ.get(REHEARSAL_VARIABLE) or ROOT)


def choose_power_sources(
    power: str, meter: str | None, settings: Mapping[str, HyperValue]
) -> ChosenPower:
    """Resolve --power and --meter before anything is timed.

    RequestError for an unknown name or an unreachable meter; MissingError for a named source that
    has nothing to read.
    """
    period_ms = resolve_power_period(settings)
    names = parse_power_option(power)
    requested = power not in (AUTO, OFF)
    root = resolve_power_root()
    if requested:
        for name in names:
            check_source_present(name, root)
    options = {"root": str(root), "period_ms": period_ms, "asked": requested}
    openings = [
        SourceOpening(function=f"{SOURCES_MODULE}:open_source", options={"name": name, **options})
        for name in names
    ]
    slowest_ms = period_ms if names else 0
    if meter is not None:
        meters = registry.load_external_meters()
        slowest_ms = max(slowest_ms, meters.greet_meter(meter))
        openings.append(SourceOpening(function=meters.opening, options={"address": meter}))
    return ChosenPower(
        openings=tuple(openings),
        linger_s=LINGER_PERIODS * slowest_ms / 1000,
        requested=requested or meter is not None,
    )


def parse_power_option(power: str) -> Sequence[str]:
    """Parse --power: auto is every source, off none; RequestError for an unknown name."""
    known = list(registry.map_entry_points(registry.POWER_GROUP))
    if power in (AUTO, OFF):
        return known if power == AUTO else []
    names = [word.strip() for word in power.split(",")]
    for name in {AUTO, OFF} & set(names):
        raise RequestError(
            f"--power {power}: {name} excludes others; name the sources: {', '.join(known)}"
        )
    for name in names:
        if name not in known:
            raise registry.build_unlisted_name_error(
                registry.POWER_GROUP, "power source", name, [*known, AUTO, OFF]
            )
    return list(dict.fromkeys(names))


def resolve_power_period(settings: Mapping[str, HyperValue]) -> int:
    """Read the period from the settings, whose ranges the round has checked."""
    value = settings.get(PERIOD_SETTING, PERIOD_MS)
    assert isinstance(value, int)
    return value


def check_source_present(name: str, root: Path) -> None:
    """Raise MissingError if a named source has nothing to read."""
    source = registry.load_power_source(name)
    found = source.probe(root)
    source.close()
    if isinstance(found, str):
        raise MissingError(f"--power {name}: {found}")


def has_readable_power(chosen: ChosenPower) -> bool:
    """Return whether anything can be read here: a meter was given, or a source has channels."""
    for opening in chosen.openings:
        if "name" not in opening.options:
            return True
        source = load_usable_source(str(opening.options["name"]))
        if source is None:
            continue
        found = source.probe(Path(str(opening.options["root"])))
        source.close()
        if not isinstance(found, str):
            return True
    return False


def load_usable_source(name: str) -> PowerSource | None:
    """Return a power source; None, and a warning, for one of another package that does not fit."""
    try:
        return registry.load_power_source(name)
    except MissingError as error:
        point = registry.map_entry_points(registry.POWER_GROUP)[name]
        if plugins.is_own_entry_point(point):
            raise
        plugins.warn_about_package(point, str(error))
        return None
