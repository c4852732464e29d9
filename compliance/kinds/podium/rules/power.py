"""Check power and energy: every joule follows from readings in the run's own window, and keeps its
grade and its scope.
"""

from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Final

from compliance.kinds.podium.documents.power import RunPower
from compliance.kinds.podium.rules.inference.run_record import SHOWN_DIGEST_LETTERS
from compliance.kinds.podium.rules.power_channels import (
    describe_unmoved_channel,
    find_channel_misfits,
    find_containing_scopes,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.energy import (
    ChannelReadings,
    NoEnergyError,
    select_covering_readings,
    unwrap_energy_counter,
)
from suite.measurement.power_readings import (
    COMPONENTS_SOURCE,
    IDLE_POWER_S,
    PowerTrack,
)
from suite.power import Quantity, is_overlapping
from suite.records import ROUGH_EDGE_SHARE

MIN_STUCK_READINGS: Final = 20
"""Number of equal readings in a run that are not a coincidence. Source: house rule; a P4's sensor
reads 33 W whatever runs on it (arXiv:1807.02562).
"""


@rule("power.same_run", RunPower, About.SCORE, former="power.clock power.energy")
def same_run(powered: RunPower) -> Iterator[Fault]:
    """Energy and performance come from one run: an accuracy run has no readings of power, and those
    beside another run are the ones that its record or its training log names by SHA-256.

    Source: MLPerf Power rules, Power measurement: the performance run is measured; house rule: each
    energy is computed from the readings.
    Advice: run again with the power sources, so that energy and performance come from one run.
    """
    if not powered.performance:
        yield powered.build_fault("readings of power in an accuracy run", "none")
    named = powered.named_sha256
    if named is not None and named != powered.telemetry_sha256:
        yield powered.build_fault(
            describe_named_file(powered.telemetry_sha256),
            f"{describe_named_file(named)}, as {powered.naming_file} names them",
        )


def describe_named_file(sha256: str) -> str:
    """Describe readings by the first letters of their SHA-256."""
    if sha256:
        return f"the readings {sha256[:SHOWN_DIGEST_LETTERS]}"
    return "no readings of power"


@rule("power.window", RunPower, About.SCORE)
def window(powered: RunPower) -> Iterator[Fault]:
    """The idle machine was read before the run began.

    Source: house rule: the watts of an idle machine are those of one that does nothing.
    Advice: serve again.
    """
    if powered.next_ns is None:
        return
    if powered.window is None or powered.window[1] > powered.next_ns:
        yield powered.build_fault(
            "an idle reading during the run", f"{IDLE_POWER_S:g} s of readings before it"
        )


@rule("power.readings", RunPower, About.SCORE, severity=Severity.WARNING)
def enough(powered: RunPower) -> Iterator[Fault]:
    """The energy of a training run uses at least 60 readings of each channel.

    Source: MLPerf Training power rules: at least 60 readings; house rule: a warning, since a short
    run on one machine is not a submission.
    Advice: train longer, or read more often: --set power.period_ms=50.
    """
    for each in powered.energies:
        if each.readings < powered.min_readings:
            yield powered.build_fault(
                f"{each.name}: {each.readings} readings", f"at least {powered.min_readings}"
            )


@rule("power.edge", RunPower, About.SCORE, severity=Severity.WARNING)
def edge(powered: RunPower) -> Iterator[Fault]:
    """The energy at the edges of a run, between two readings, is at most a tenth of the run's
    energy.

    Source: house rule; suite/energy.py, edge_j.
    Advice: run longer, or read more often: --set power.period_ms=50.
    """
    if not powered.loaded:  # the edges hardly change an idle machine's watts
        return
    for each in powered.energies:
        if each.is_rough:
            yield powered.build_fault(
                f"{each.name}: {each.joules:g} J with an error of up to {each.edge_j:g} J at the"
                " edges",
                f"at most {ROUGH_EDGE_SHARE:.0%}",
            )


@rule("power.counter", RunPower, About.SCORE, severity=Severity.WARNING)
def counter(powered: RunPower) -> Iterator[Fault]:
    """A counter decreases only when it wraps, and never grows faster than its component can draw. A
    run in which it does has no energy from this counter.

    Source: Linux, power/powercap/powercap.rst, max_energy_range_uj; house rule: the limit plus a
    fifth.
    Advice: serve again; if the counter decreases again, read this component by another source
    (--power).
    """
    if powered.next_ns is not None:  # the run's own document has the same readings
        return
    for track in powered.readings.tracks.values():
        if track.quantity is Quantity.ENERGY and has_increasing_times(track) and track.values:
            inside = describe_counter_refusal(track.channel_readings, powered.window)
            if found := inside or describe_counter_refusal(track.channel_readings, None):
                yield powered.build_fault(
                    f"{track.name}: {found}", "a counter that only increases, except when it wraps"
                )


def describe_counter_refusal(readings: ChannelReadings, window: tuple[int, int] | None) -> str:
    """Return why a counter gives no energy in a window, or with None in the whole file; empty if it
    does, or if its readings do not cover the window.
    """
    try:
        readings = select_covering_readings(readings, *window) if window else readings
    except NoEnergyError:
        return ""
    try:
        unwrap_energy_counter(readings)
    except NoEnergyError as error:
        return str(error)
    return ""


def has_increasing_times(track: PowerTrack) -> bool:
    """Return whether a channel's times increase, as power.order requires."""
    return all(before < after for before, after in pairwise(track.times_ns))


@rule("power.order", RunPower, About.SCORE)
def order(powered: RunPower) -> Iterator[Fault]:
    """The times of a channel's readings increase, and powers are not negative. In a channel without
    an energy a violation is a warning.

    Source: house rule; the sampler stamps each reading with the monotonic clock.
    Advice: serve again with a clock that nobody sets; a meter that reports times out of order or
    negative watts needs repair.
    """
    shown = {each.name for each in powered.energies}
    for track in powered.readings.tracks.values():
        if not has_increasing_times(track):
            yield powered.build_fault(
                f"{track.name}: times that do not increase",
                "readings in the order of time",
                severity=Severity.WARNING,
            )
        if any(value < 0 for value in track.values):
            yield powered.build_fault(
                f"{track.name}: {min(track.values)}",
                "readings of at least 0",
                severity=None if track.name in shown else Severity.WARNING,
            )


@rule("power.stuck", RunPower, About.SCORE, severity=Severity.WARNING)
def stuck(powered: RunPower) -> Iterator[Fault]:
    """A working sensor changes during a run and between the run and the idle time around it.

    Source: house rule: 20 readings within 0.01 %, or a mean within 0.1 % of that around the run;
    some cards report the same watts whatever runs on them.
    Advice: check the sensor against a meter of the whole system.
    """
    if not powered.loaded or powered.window is None:
        return
    for track in powered.readings.tracks.values():
        if found := describe_unmoved_channel(track, powered.window, MIN_STUCK_READINGS):
            yield powered.build_fault(found, "readings that change with the load")


@rule("power.scope", RunPower, About.RULES)
def scope(powered: RunPower) -> Iterator[Fault]:
    """A sum of energies covers separate parts only.

    Source: house rule: a package and its cores, or a module and its rails, would count twice.
    Advice: serve again; if a source names the wrong parts of the machine, correct the scope in the
    source's package.
    """
    for one, other in combinations(
        [track for track in powered.readings.tracks.values() if track.source == COMPONENTS_SOURCE],
        2,
    ):
        yield powered.build_fault(
            f"sums {one.name} and {other.name} among the readings", "readings from sources only"
        )
    read = {scope for track in powered.readings.tracks.values() for scope in track.scopes}
    for track in powered.readings.tracks.values():
        if missing := find_containing_scopes(track, read) - {*track.containers}:
            yield powered.build_fault(
                f"{track.name}: within {', '.join(track.containers) or 'nothing'}",
                f"within {', '.join(sorted(missing))} as well",
            )
    yield from check_summed_parts(powered)


def check_summed_parts(powered: RunPower) -> Iterator[Fault]:
    """Yield the parts of a recorded sum that contain one another."""
    parts = {track.scopes: track for track in powered.readings.tracks.values()}
    for total in (each for each in powered.energies if each.source == COMPONENTS_SOURCE):
        summed = [track for scopes, track in parts.items() if set(scopes) <= set(total.scope)]
        for one, other in combinations(summed, 2):
            if is_overlapping(one, other):
                yield powered.build_fault(
                    f"a sum of {one.name} and {other.name}, which share a part", "separate parts"
                )


@rule("power.grade", RunPower, About.RULES)
def grade(powered: RunPower) -> Iterator[Fault]:
    """A grade is one of the four grades and fits its source. Only an imported session may contain
    an analyzer's watts.

    Source: house rule: how directly the power was measured decides which results it may be compared
    with; docs/reference/power.md, Grades and scopes.
    Advice: read a meter of the whole system with --meter, or import an analyzer's session; then the
    source states its grade itself.
    """
    for track in powered.readings.tracks.values():
        for found, required in find_channel_misfits(track):
            yield powered.build_fault(found, required)


@rule("power.rehearsal", RunPower, About.RULES)
def rehearsal(powered: RunPower) -> Iterator[Fault]:
    """Power comes from the machine's own files: a run on simulated files is a rehearsal and never
    counts.

    Source: house rule; every channel records the root folder of its files.
    Advice: serve again without PODIUM_POWER_ROOT.
    """
    if powered.readings.rehearsal:
        yield powered.build_fault(
            f"files below {powered.readings.rehearsal}", "the kernel's own files, below /"
        )
