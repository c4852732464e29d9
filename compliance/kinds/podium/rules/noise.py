"""Check what disturbed a run, by its telemetry and its own pace. A lab's only machine may be
shared, so all findings are warnings.
"""

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Final

from compliance.kinds.podium.documents.conditions import RunConditions
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.measurement import student
from suite.measurement.host_load import SLOWDOWN_REASON_BITS
from suite.units import NS_PER_S

MIN_CLOCK_READINGS: Final = 8
"""Minimum number of readings: with fewer, a quarter of them is one or none."""


@rule("noise.others", RunConditions, About.SCORE, severity=Severity.WARNING)
def others(run: RunConditions) -> Iterator[Fault]:
    """Other programs use few of the cores during a run, on average and over any ten seconds.
    Beside servers on LoadGen's machine this is not known, since they are such programs.

    Source: house rule; the round's noise.others_share and noise.others_peak_share.
    Advice: end other programs and repeat the run; a result on a disturbed host is not the system's
    best.
    """
    shares = [
        (ns, state.cpu_others)
        for ns, state in run.iterate_host_states()
        if state.cpu_others is not None
    ]
    if run.noise is None or not shares or run.has_servers_beside:
        return
    average, peak = compute_mean_share(shares), compute_peak_share(shares, run.noise.peak_s)
    if average > run.noise.others_share:
        yield run.build_fault(
            f"other programs on {average:.1%} of the cores",
            f"at most {run.noise.others_share:.0%} on average",
        )
    elif peak > run.noise.others_peak_share:
        yield run.build_fault(
            f"other programs on {peak:.1%} of the cores for {run.noise.peak_s:g} s",
            f"at most {run.noise.others_peak_share:.0%}",
        )


@rule("noise.steal", RunConditions, About.SCORE, severity=Severity.WARNING)
def steal(run: RunConditions) -> Iterator[Fault]:
    """The hypervisor takes no CPU time from this machine.

    Source: house rule; the round's noise.steal_share; proc(5), /proc/stat, steal.
    Advice: measure on a physical machine, or on a virtual machine that has its cores to itself.
    """
    shares = [
        (ns, state.steal) for ns, state in run.iterate_host_states() if state.steal is not None
    ]
    if run.noise and shares and (average := compute_mean_share(shares)) > run.noise.steal_share:
        yield run.build_fault(
            f"{average:.1%} of the cores' time stolen", f"at most {run.noise.steal_share:.0%}"
        )


@rule("noise.trend", RunConditions, About.SCORE, severity=Severity.WARNING)
def trend(run: RunConditions) -> Iterator[Fault]:
    """A run's second half is as fast as its first: their rates differ little, or no more than
    chance allows in a steady run.

    Source: house rule; the round's noise.trend_share and noise.trend_level. Server is exempt,
    because its pace follows the arrivals.
    Advice: find out whether the machine became hot or busy, and repeat the run.
    """
    if run.noise is None or run.rates is None:
        return
    first, second = map(statistics.fmean, run.rates)
    if (
        first > 0
        and abs(second / first - 1) > run.noise.trend_share
        and estimate_trend_p_value(*run.rates) < run.noise.trend_level
    ):
        yield run.build_fault(
            f"{first:.4g} samples/s in the first half, {second:.4g} in the second",
            f"rates within {run.noise.trend_share:.0%}",
        )


@rule("noise.throttle", RunConditions, About.SCORE, severity=Severity.WARNING)
def throttle(run: RunConditions) -> Iterator[Fault]:
    """Neither heat nor a power brake slows a GPU's clock.

    Source: house rule; the round's noise.throttle_share; NVML, nvmlClocksEventReason: software and
    hardware thermal slowdown, power brake.
    Advice: check the machine's cooling and power supply, and repeat the run.
    """
    for name, states in run.iterate_gpu_states():
        reasons = [state.event_reasons for state in states if state.event_reasons is not None]
        share = sum(bool(each & SLOWDOWN_REASON_BITS) for each in reasons) / max(1, len(reasons))
        if run.noise and share > run.noise.throttle_share:
            yield run.build_fault(
                f"{name} throttled in {share:.1%} of the samples",
                f"at most {run.noise.throttle_share:.0%}",
            )


@rule("noise.clock", RunConditions, About.SCORE, severity=Severity.WARNING)
def clock(run: RunConditions) -> Iterator[Fault]:
    """The frequencies of cores and GPUs do not fall during a run.

    Source: house rule; the round's noise.clock_share, which compares the medians of the last and
    the first quarter; for the cores, the fastest counts.
    Advice: let the machine cool down between runs, or fix its clocks, and repeat the run.
    """
    named_clocks: dict[str, list[float]] = {
        "the fastest core": [max(state.mhz) for _, state in run.iterate_host_states() if state.mhz]
    }
    named_clocks |= {
        name: [state.sm_mhz for state in states if state.sm_mhz and state.util]
        for name, states in run.iterate_gpu_states()
    }
    for name, clocks in named_clocks.items():
        quarter = len(clocks) // 4
        if run.noise is None or len(clocks) < MIN_CLOCK_READINGS:
            continue
        first, last = statistics.median(clocks[:quarter]), statistics.median(clocks[-quarter:])
        if last < run.noise.clock_share * first:
            yield run.build_fault(
                f"{name} at {last:.0f} MHz in the last quarter",
                f"at least {run.noise.clock_share:.0%} of {first:.0f} MHz",
            )


@rule("noise.swap", RunConditions, About.SCORE, severity=Severity.WARNING)
def swap(run: RunConditions) -> Iterator[Fault]:
    """The host swaps no memory in during a run.

    Source: house rule: a program waited for a disk while memory was swapped in.
    Advice: free memory, or use a machine with more, and repeat the run.
    """
    swapped = sum(state.swap_in_bytes or 0 for _, state in run.iterate_host_states())
    if swapped:
        yield run.build_fault(f"{swapped} bytes swapped in", "none")


@rule("noise.governor", RunConditions, About.SCORE, severity=Severity.WARNING)
def governor(run: RunConditions) -> Iterator[Fault]:
    """The frequency governor of the cores keeps their clock high.

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
            yield run.build_fault(f"governor {name}", run.noise.governor)


def compute_mean_share(shares: Sequence[tuple[int, float]]) -> float:
    """Average shares, weighted by their time."""
    return sum(ns * share for ns, share in shares) / sum(ns for ns, _ in shares)


def compute_peak_share(shares: Sequence[tuple[int, float]], span_s: float) -> float:
    """Return the highest average over so many seconds; 0 in a shorter run."""
    highest, ns, total, first = 0.0, 0, 0.0, 0
    for span, share in shares:
        ns, total = ns + span, total + span * share
        while ns - shares[first][0] >= span_s * NS_PER_S:
            ns, total, first = (
                ns - shares[first][0],
                total - shares[first][0] * shares[first][1],
                first + 1,
            )
        if ns >= span_s * NS_PER_S:
            highest = max(highest, total / ns)
    return highest


def estimate_trend_p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the probability that the means of two equally large groups of slices of a steady run
    differ by as much: Student's t test, both with one variance.

    By ranks, five slices beside five are completely separate in one steady run of 126: more than
    the limit allows.
    """
    difference = abs(statistics.fmean(second) - statistics.fmean(first))
    error = math.sqrt((statistics.variance(first) + statistics.variance(second)) / len(first))
    if not error:
        return 0.0 if difference else 1.0
    return student.compute_t_two_sided(difference / error, 2 * (len(first) - 1))
