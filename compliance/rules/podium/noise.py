"""Noise: what disturbed a run, by its telemetry and its own pace; a lab's only machine may be
shared, so all of it is a warning.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.documents.podium.conditions import Conditions
from compliance.rules import rule
from compliance.verdict import Fault, Severity
from suite.measurement import student

NS_PER_S: Final = 1e9
HELD_DOWN: Final = 0x20 | 0x40 | 0x80
"""NVML, nvml.h: nvmlClocksEventReasonSwThermalSlowdown, ...HwThermalSlowdown,
...HwPowerBrakeSlowdown.
"""
LEAST_CLOCKS: Final = 8
"""Readings, below which a quarter of them is one or none."""


@rule("noise.others", Conditions, severity=Severity.WARNING)
def others(run: Conditions) -> Iterator[Fault]:
    """Other programs used few of the cores during a run, on average and over any ten seconds.

    Source: house rule; the round's noise.others_share and noise.others_peak_share.
    Advice: end other programs and repeat the run; a result on a disturbed host is not the system's
    best.
    """
    told = [(ns, state.cpu_others) for ns, state in run.hosts() if state.cpu_others is not None]
    if run.noise is None or not told:
        return
    average, peak = mean(told), peak_of(told, run.noise.peak_s)
    if average > run.noise.others_share:
        yield run.fault(
            f"others on {average:.1%} of the cores",
            f"at most {run.noise.others_share:.0%} on average",
        )
    elif peak > run.noise.others_peak_share:
        yield run.fault(
            f"others on {peak:.1%} of the cores for {run.noise.peak_s:g} s",
            f"at most {run.noise.others_peak_share:.0%}",
        )


@rule("noise.steal", Conditions, severity=Severity.WARNING)
def steal(run: Conditions) -> Iterator[Fault]:
    """The hypervisor gave the cores to nobody else.

    Source: house rule; the round's noise.steal_share; proc(5), /proc/stat, steal.
    Advice: measure on a machine, or a virtual machine, of whose cores no other has a share.
    """
    told = [(ns, state.steal) for ns, state in run.hosts() if state.steal is not None]
    if run.noise and told and (average := mean(told)) > run.noise.steal_share:
        yield run.fault(
            f"{average:.1%} of the cores' time stolen", f"at most {run.noise.steal_share:.0%}"
        )


@rule("noise.trend", Conditions, severity=Severity.WARNING)
def trend(run: Conditions) -> Iterator[Fault]:
    """A run's second half is as fast as its first: their rates differ by little, or by no more than
    chance has them differ in a steady run.

    Source: house rule; the round's noise.trend_share and noise.trend_level. Server's pace follows
    the arrivals, and is not looked at.
    Advice: find out whether the machine became hot or busy, and repeat the run.
    """
    if run.noise is None or run.rates is None:
        return
    first, second = map(statistics.fmean, run.rates)
    if (
        first > 0
        and abs(second / first - 1) > run.noise.trend_share
        and chance(*run.rates) < run.noise.trend_level
    ):
        yield run.fault(
            f"{first:.4g} samples/s in the first half, {second:.4g} in the second",
            f"rates within {run.noise.trend_share:.0%}",
        )


@rule("noise.throttle", Conditions, severity=Severity.WARNING)
def throttle(run: Conditions) -> Iterator[Fault]:
    """Neither heat nor a power brake held a GPU's clock down.

    Source: house rule; the round's noise.throttle_share; NVML, nvmlClocksEventReason: software and
    hardware thermal slowdown, power brake.
    Advice: see to the machine's cooling and power supply, and repeat the run.
    """
    for name, states in run.gpus():
        reasons = [state.event_reasons for state in states if state.event_reasons is not None]
        share = sum(bool(each & HELD_DOWN) for each in reasons) / max(1, len(reasons))
        if run.noise and share > run.noise.throttle_share:
            yield run.fault(
                f"{name} held down in {share:.1%} of the samples",
                f"at most {run.noise.throttle_share:.0%}",
            )


@rule("noise.clock", Conditions, severity=Severity.WARNING)
def clock(run: Conditions) -> Iterator[Fault]:
    """The clocks of cores and GPUs do not fall during a run.

    Source: house rule; the round's noise.clock_share, of the medians of the last and the first
    quarter; of the cores the fastest is looked at.
    Advice: let the machine cool down between runs, or fix its clocks, and repeat the run.
    """
    told: dict[str, list[float]] = {
        "the fastest core": [max(state.mhz) for _, state in run.hosts() if state.mhz]
    }
    told |= {
        name: [state.sm_mhz for state in states if state.sm_mhz and state.util]
        for name, states in run.gpus()
    }
    for name, clocks in told.items():
        quarter = len(clocks) // 4
        if run.noise is None or len(clocks) < LEAST_CLOCKS:
            continue
        first, last = statistics.median(clocks[:quarter]), statistics.median(clocks[-quarter:])
        if last < run.noise.clock_share * first:
            yield run.fault(
                f"{name} at {last:.0f} MHz in the last quarter",
                f"at least {run.noise.clock_share:.0%} of {first:.0f} MHz",
            )


@rule("noise.swap", Conditions, severity=Severity.WARNING)
def swap(run: Conditions) -> Iterator[Fault]:
    """The host swaps no memory in during a run.

    Source: house rule: whatever was swapped in, something had to wait for a disk.
    Advice: free memory, or use a machine with more, and repeat the run.
    """
    swapped = sum(state.swap_in_bytes or 0 for _, state in run.hosts())
    if swapped:
        yield run.fault(f"{swapped} bytes swapped in", "none")


@rule("noise.governor", Conditions, severity=Severity.WARNING)
def governor(run: Conditions) -> Iterator[Fault]:
    """The cores' frequency governor keeps their clock up.

    Source: house rule; the round's noise.governor; kernel documentation,
    admin-guide/pm/cpufreq.rst.
    Advice: set it with cpupower frequency-set -g performance, and repeat the run.
    """
    found = {
        each.governor
        for segment in run.segments
        for each in segment.head.channels
        if each.name == "host" and each.governor
    }
    for name in sorted(found):
        if run.noise and name != run.noise.governor:
            yield run.fault(f"governor {name}", run.noise.governor)


def mean(told: Sequence[tuple[int, float]]) -> float:
    """Average shares over the time that each tells of."""
    return sum(ns * share for ns, share in told) / sum(ns for ns, _ in told)


def peak_of(told: Sequence[tuple[int, float]], span_s: float) -> float:
    """Give the highest average over so many seconds; 0 in a shorter run."""
    highest, ns, total, first = 0.0, 0, 0.0, 0
    for span, share in told:
        ns, total = ns + span, total + span * share
        while ns - told[first][0] >= span_s * NS_PER_S:
            ns, total, first = (
                ns - told[first][0],
                total - told[first][0] * told[first][1],
                first + 1,
            )
        if ns >= span_s * NS_PER_S:
            highest = max(highest, total / ns)
    return highest


def chance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return how often the means of two equally many slices of a steady run differ by as much:
    Student's t test, both with one variance.

    By ranks, five slices beside five lie wholly apart in one steady run of 126: more than the limit
    allows.
    """
    apart = abs(statistics.fmean(second) - statistics.fmean(first))
    error = math.sqrt((statistics.variance(first) + statistics.variance(second)) / len(first))
    if not error:
        return 0.0 if apart else 1.0
    return student.two_sided(apart / error, 2 * (len(first) - 1))
