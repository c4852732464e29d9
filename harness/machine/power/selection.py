"""Which power sources a run reads: --power and --meter, turned into what the sampler opens."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.machine.power.meter import Meter, MeterError
from harness.machine.telemetry.sampled import Opening
from suite import registry
from suite.errors import MissingError, RequestError, unknown
from suite.power import PERIOD_MS, ROOT
from suite.rounds import HyperValue

AUTO, OFF = "auto", "off"
REHEARSAL: Final = "PODIUM_POWER_ROOT"
"""Variable that names another root than /: a rehearsal on made-up files, which the judge never accepts."""
PERIOD: Final = "power.period_ms"
LEAST_MS, MOST_MS = 10, 10_000
MODULE: Final = "harness.machine.power.sampled"
LINGER_PERIODS: Final = 2
"""The sampler goes on for so long after a run, so that there are readings behind its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What a run reads."""

    openings: tuple[Opening, ...] = ()
    linger_s: float = 0.0
    """Seconds after the run until the sampler may end."""


def power_root() -> Path:
    """Give the root below which the kernel's files are read."""
    return Path(os.environ.get(REHEARSAL) or ROOT)


def choose(power: str, meter: str | None, settings: Mapping[str, HyperValue]) -> Chosen:
    """Resolve --power and --meter before anything is timed.

    RequestError for a name that there is not and a meter that cannot be reached; MissingError for a source that was named and has nothing.
    """
    period_ms = period_of(settings)
    names = names_of(power)
    asked = power not in (AUTO, OFF)
    root = power_root()
    for name in names if asked else ():
        refuse_absent(name, root)
    options = {"root": str(root), "period_ms": period_ms, "asked": asked}
    openings = [Opening(function=f"{MODULE}:open_source", options={"name": name, **options}) for name in names]
    slowest_ms = period_ms if names else 0
    if meter is not None:
        slowest_ms = max(slowest_ms, meters_period(meter))
        openings.append(Opening(function=f"{MODULE}:open_meter", options={"address": meter}))
    return Chosen(openings=tuple(openings), linger_s=LINGER_PERIODS * slowest_ms / 1000)


def names_of(power: str) -> Sequence[str]:
    """Read --power: auto is every source, off none; RequestError for a name that there is not."""
    known = list(registry.points(registry.POWER))
    if power in (AUTO, OFF):
        return known if power == AUTO else []
    names = [word.strip() for word in power.split(",")]
    for name in names:
        if name not in known:
            raise unknown("power source", name, [*known, AUTO, OFF])
    return list(dict.fromkeys(names))


def period_of(settings: Mapping[str, HyperValue]) -> int:
    """Read the period from the settings; RequestError for one that makes no sense."""
    value = settings.get(PERIOD, PERIOD_MS)
    if not isinstance(value, int) or not LEAST_MS <= value <= MOST_MS:
        raise RequestError(f"setting {PERIOD}: {value!r}; {LEAST_MS} to {MOST_MS} are possible")
    return value


def refuse_absent(name: str, root: Path) -> None:
    """MissingError where a source that was named has nothing to read."""
    source = registry.power_source(name)
    found = source.probe(root)
    source.close()
    if isinstance(found, str):
        raise MissingError(f"--power {name}: {found}")


def meters_period(address: str) -> int:
    """Greet a meter once, and give its period; RequestError where nothing can be reached at its address.

    A meter that is there and misbehaves costs a run its energy, not the run.
    """
    try:
        meter = Meter(address)
    except MeterError as error:
        if str(error).startswith("cannot be reached"):
            raise RequestError(f"--meter {address}: {error}") from error
        return 0
    meter.close()
    return meter.period_ms
