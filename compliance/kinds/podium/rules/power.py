"""Check power and energy: every joule follows from readings in the run's own window, and keeps its
grade and its scope.
"""

import math
from collections.abc import Iterator
from dataclasses import fields
from itertools import combinations, pairwise
from typing import Any, Final

from compliance.kinds.podium.documents.power import RunPower
from compliance.kinds.podium.rules.inference.run_record import SHOWN_DIGEST_LETTERS
from compliance.kinds.podium.rules.power_channels import (
    describe_unmoved_channel,
    find_channel_misfits,
    find_containing_scopes,
    list_source_grades,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.energy import (
    ChannelReadings,
    NoEnergyError,
    select_covering_readings,
    unwrap_energy_counter,
)
from suite.files.layout import RUN_RECORD
from suite.measurement.power_readings import (
    COMPONENTS_SOURCE,
    IDLE_POWER_S,
    MAX_METER_OFFSET_NS,
    MAX_UTC_DRIFT_NS,
    PowerTrack,
)
from suite.power import SYSTEM, Quantity, is_overlapping
from suite.records import ROUGH_EDGE_SHARE, EnergyRecord

ENERGY_TOLERANCE: Final = 1e-3
"""Maximum relative difference between a figure and its readings. Source: house rule."""
MIN_STUCK_READINGS: Final = 20
"""Number of equal readings in a run that are not a coincidence. Source: house rule; a P4's sensor
reads 33 W whatever runs on it (arXiv:1807.02562).
"""
ENERGY_FIGURES: Final = (
    "joules",
    "average_w",
    "edge_j",
    "mlperf_mean_w",
    "per_sample_j",
    "samples_per_s_per_w",
    "mj_per_query",
    "per_token_j",
)


@rule("power.same_run", RunPower, About.SCORE)
def same_run(powered: RunPower) -> Iterator[Fault]:
    """Energy and performance come from one run: an accuracy run has no readings of power, a log or
    table with an energy has its readings beside it, and so has a LoadGen run whose record names
    them by SHA-256.

    Source: MLPerf Power rules, Power measurement: the performance run is measured; house rule.
    Advice: serve again with the power sources, so that energy and performance come from one run.
    """
    if not powered.performance:
        yield powered.build_record_fault("readings of power in an accuracy run", "none")
    elif powered.claims and not powered.readings.tracks:
        yield powered.build_record_fault(
            "energy without readings", f"the readings, in {powered.telemetry.name}"
        )
    named = powered.named_sha256
    if named is not None and named != powered.telemetry_sha256:
        yield powered.build_fault(
            describe_named_file(powered.telemetry_sha256),
            f"{describe_named_file(named)}, as {RUN_RECORD} names them",
        )


def describe_named_file(sha256: str) -> str:
    """Describe readings by the first letters of their SHA-256."""
    return f"the readings {sha256[:SHOWN_DIGEST_LETTERS]}" if sha256 else "no readings of power"


@rule("power.window", RunPower, About.SCORE)
def window(powered: RunPower) -> Iterator[Fault]:
    """Every channel with an energy has readings from before the run began (power_begin, run_start)
    and from after it ended, without a long gap in between. The idle machine was read before it.

    Source: house rule: nothing is extrapolated; mlcommons/inference, loadgen.cc, power_begin and
    power_end.
    Advice: serve again; a machine that is too busy to read its sensors gets no energy result.
    """
    if powered.next_ns is not None:
        yield from check_idle_window(powered, powered.next_ns)
    if not powered.performance or not powered.readings.tracks or not powered.claims:
        return
    if powered.window is None:
        yield powered.build_record_fault(
            "energy of a run without begin and end",
            "power_begin and power_end in the detail log, or run_start and run_stop",
        )
        return
    told = {each.name for each in powered.claims}
    for reason in powered.measured[1]:
        if reason.partition(":")[0] in told or any(reason.startswith(f"{name}: ") for name in told):
            yield powered.build_fault(reason, "readings that confirm the recorded energy")


def check_idle_window(powered: RunPower, run_begin_ns: int) -> Iterator[Fault]:
    """Yield that the idle machine was not read before the run began."""
    if powered.window is None or powered.window[1] > run_begin_ns:
        yield powered.build_record_fault(
            "an idle reading during the run", f"{IDLE_POWER_S:g} s of readings before it"
        )


@rule("power.energy", RunPower, About.SCORE)
def figures(powered: RunPower) -> Iterator[Fault]:
    """The joules, watts and derived values that a training log or a study's table states match the
    readings within 0.1 %, for exactly the channels that were read.

    Source: house rule: the judge recomputes every value that a command shows; suite/energy.py.
    Advice: copy telemetry and log again from one run; podium computes energies from the readings.
    """
    if powered.malformed:
        yield powered.build_record_fault(
            f"an unreadable energy: {powered.malformed}",
            "a list of energies, as podium writes it",
        )
    if powered.silent and powered.measured[0]:
        yield powered.build_fault(
            "readings of power, and a log without energy",
            "the event energy, as podium writes it",
            severity=Severity.WARNING,
        )
    if (
        not powered.is_stated
        or powered.malformed
        or powered.window is None
        or not powered.performance
        or not powered.readings.tracks
    ):
        return
    measured = {each.name: each for each in powered.measured[0]}
    stated = {each.name: each for each in powered.claims}
    if len(stated) < len(powered.claims):
        yield powered.build_record_fault(
            f"{len(powered.claims)} energies of {len(stated)} channels",
            "one energy per channel",
        )
    for name in sorted(measured.keys() | stated.keys()):
        if name not in stated:
            yield powered.build_record_fault(
                f"no energy by {name}",
                f"{measured[name].joules:g} J, as computed from its readings",
            )
        elif name not in measured:
            yield powered.build_record_fault(
                f"{stated[name].joules:g} J by {name}", "no energy, since its readings give none"
            )
        else:
            yield from check_channel_energy(powered, stated[name], measured[name])


def check_channel_energy(
    powered: RunPower, stated: EnergyRecord, measured: EnergyRecord
) -> Iterator[Fault]:
    """Yield the figures of a channel that differ from its readings."""
    for field in fields(EnergyRecord):
        mine, other = getattr(stated, field.name), getattr(measured, field.name)
        differs = (
            field.name in ENERGY_FIGURES
            and not is_energy_close(mine, other)
            or field.name in ("readings", "longest_gap_ms")
            and mine != other
        )
        if differs:
            yield powered.build_record_fault(
                f"{field.name} {mine} by {stated.name}", f"{other}, as computed from the readings"
            )


def is_energy_close(one: Any, other: Any) -> bool:
    """Compare two figures."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=ENERGY_TOLERANCE, abs_tol=1e-9)


@rule("power.readings", RunPower, About.SCORE, severity=Severity.WARNING)
def enough(powered: RunPower) -> Iterator[Fault]:
    """The energy of a training run uses at least 60 readings of each channel.

    Source: MLPerf Training power rules: at least 60 readings; house rule: a warning, since a short
    run on one machine is not a submission.
    Advice: train longer, or read more often: --set power.period_ms=50.
    """
    for told in powered.claims:
        if told.readings < powered.min_readings:
            yield powered.build_record_fault(
                f"{told.name}: {told.readings} readings", f"at least {powered.min_readings}"
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
    measured = {each.name: each for each in powered.measured[0]}
    for told in powered.claims:
        own = measured.get(told.name, told)
        if own.is_rough:
            yield powered.build_record_fault(
                f"{told.name}: {own.joules:g} J with an error of up to {own.edge_j:g} J at the"
                " edges",
                f"at most {ROUGH_EDGE_SHARE:.0%}",
            )


@rule("power.counter", RunPower, About.SCORE)
def counter(powered: RunPower) -> Iterator[Fault]:
    """A counter decreases only when it wraps, and never grows faster than its component can draw.
    Outside the run, or without an energy from this counter, a violation is a warning.

    Source: Linux, power/powercap/powercap.rst, max_energy_range_uj; house rule: the limit plus a
    fifth.
    Advice: serve again; if the counter decreases again, read this component by another source
    (--power).
    """
    if powered.next_ns is not None:  # the run's own document has the same readings
        return
    told = {each.name for each in powered.claims}
    for track in powered.readings.tracks.values():
        if track.quantity is Quantity.ENERGY and has_increasing_times(track) and track.values:
            inside = describe_counter_refusal(track.channel_readings, powered.window)
            if found := inside or describe_counter_refusal(track.channel_readings, None):
                yield powered.build_fault(
                    f"{track.name}: {found}",
                    "a counter that only increases, except when it wraps",
                    severity=Severity.WARNING if not inside or track.name not in told else None,
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
    told = {each.name for each in powered.claims}
    for track in powered.readings.tracks.values():
        odd = track.name not in told
        if not has_increasing_times(track):
            yield powered.build_fault(
                f"{track.name}: times that do not increase",
                "readings in the order of time",
                severity=Severity.WARNING if odd else None,
            )
        if any(value < 0 for value in track.values):
            yield powered.build_fault(
                f"{track.name}: {min(track.values)}",
                "readings of at least 0",
                severity=Severity.WARNING if odd else None,
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
    """An energy covers the same parts as its channel. A sum covers separate parts only, and is
    never called the system.

    Source: house rule: a package and its cores, or a module and its rails, would count twice.
    Advice: serve again; if a source names the wrong parts of the machine, correct the scope in the
    source's package.
    """
    measured = {each.name: each for each in powered.measured[0]}
    for told in powered.claims:
        if told.name in measured and (told.scope, told.within) != (
            measured[told.name].scope,
            measured[told.name].within,
        ):
            yield powered.build_record_fault(
                f"{told.name}: scope {', '.join(told.scope) or 'nothing'}",
                ", ".join(measured[told.name].scope) or "no scope, as in the telemetry",
            )
        if told.source == COMPONENTS_SOURCE and SYSTEM in told.scope:
            yield powered.build_record_fault(
                "a sum of parts called the system", "a sum named after its parts"
            )
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
    for told in (each for each in powered.claims if each.source == COMPONENTS_SOURCE):
        summed_tracks = [track for scopes, track in parts.items() if set(scopes) <= set(told.scope)]
        for one, other in combinations(summed_tracks, 2):
            if is_overlapping(one, other):
                yield powered.build_record_fault(
                    f"a sum of {one.name} and {other.name}, which share a part", "separate parts"
                )


@rule("power.grade", RunPower, About.RULES)
def grade(powered: RunPower) -> Iterator[Fault]:
    """A grade is one of the four grades and fits its source, both in the readings and in the
    record. The call that read the source fits it, too. Only an imported session may contain an
    analyzer's watts.

    Source: house rule: how directly the power was measured decides which results it may be compared
    with; docs/POWER.md, Grades and scopes.
    Advice: read a meter of the whole system with --meter, or import an analyzer's session; then the
    source states its grade itself.
    """
    for track in powered.readings.tracks.values():
        for found, required in find_channel_misfits(track):
            yield powered.build_fault(found, required)
    for told in powered.claims:
        own = powered.readings.tracks.get(told.name)
        if told.grade not in list_source_grades(told.source) or (
            own and (own.grade, own.source) != (told.grade, told.source)
        ):
            required = (
                f"grade {own.grade}, source {own.source}" if own else "a grade that fits its source"
            )
            yield powered.build_record_fault(
                f"{told.name}: grade {told.grade}, source {told.source}", required
            )
        if told.call and own and told.call != own.facts.get("call"):
            yield powered.build_record_fault(
                f"{told.name}: read by {told.call}",
                str(own.facts.get("call", "a source with only one call")),
            )


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


@rule("power.clock", RunPower, About.SCORE)
def clock(powered: RunPower) -> Iterator[Fault]:
    """If a record has an energy, the machine's two clocks agree, and a meter's clock is within 100
    ms of the machine's.

    Source: house rule: a window in UTC is only as good as the clocks; MLPerf Power allows 400 ms.
    Advice: set the clocks by NTP and serve again.
    """
    if not powered.claims:
        return
    if powered.readings.tracks and not powered.readings.ended:
        yield powered.build_fault(
            "readings without a last line",
            "the clocks at the end of the run, in the last line",
        )
    if powered.readings.drift_ns > MAX_UTC_DRIFT_NS:
        yield powered.build_fault(
            f"clocks that drifted apart by {powered.readings.drift_ns / 1e6:.0f} ms",
            f"at most {MAX_UTC_DRIFT_NS / 1e6:g} ms",
        )
    for track in powered.readings.tracks.values():
        apart = track.facts.get("clock_offset_ns", 0)
        if (
            isinstance(apart, int)
            and abs(apart) > MAX_METER_OFFSET_NS
            and any(told.name == track.name for told in powered.claims)
        ):
            yield powered.build_fault(
                f"{track.name}: a clock {apart / 1e6:+,.0f} ms off",
                f"at most {MAX_METER_OFFSET_NS / 1e6:g} ms",
            )
