"""This machine's ACPI power meter, served to a client on this or another machine."""

from collections.abc import Callable

from harness.machine.power.hwmon import Hwmon
from suite.errors import MissingError
from suite.power import ROOT

UW_PER_W = 1e6


def open_hwmon_meter() -> tuple[str, Callable[[], float]]:
    """Return its traits and its read function; MissingError if there is none."""
    source = Hwmon()
    found = source.probe(ROOT)
    if isinstance(found, str):
        raise MissingError(f"hwmon: {found}")
    channel = found[0]
    model = str(channel.facts.get("model") or "acpi").replace(" ", "-")
    return f"name={model} scope={channel.scope}", lambda: source.read(channel).value / UW_PER_W
