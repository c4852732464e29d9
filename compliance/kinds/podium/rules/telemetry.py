"""Check a run's telemetry: in order, complete, and over the whole run. Whether it is there is a
rule of its own (records.py).
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Final, TypedDict

from compliance.kinds.podium.documents.conditions import RunConditions
from compliance.logs.telemetry import SampledSegment
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.units import NS_PER_S

LINGER_PERIODS: Final = 2
"""So many periods of the slowest power source are read behind a run. Source:
harness/machine/power/selection.py.
"""
CLOCK_SET_ADVICE: Final = (
    "say in the submission that the machine's clock was set; the run's own times do not depend on"
    " it."
)
MAX_CLOCKS_PARTING_NS: Final = 1e9
"""House rule: monotonic clock and UTC may drift apart by this during a run, because a time server
sets UTC; more means that a clock was set.
"""


@rule("telemetry.time", RunConditions, About.FORM, severity=Severity.WARNING)
def time(run: RunConditions) -> Iterator[Fault]:
    """Time increases in telemetry: within each channel, between the clocks of the first and the
    last line, and from segment to segment.

    Source: house rule; harness/machine/telemetry stamps each reading with the monotonic clock, in
    one thread; it reads UTC for the first line and for the last one.
    Advice: keep the file that belongs to the run: podium writes one beside each.
    """
    for segment in run.segments:
        for name, times in segment.iterate_channel_times():
            yield from check_channel_times(run, segment, name, times)
        step_ns = segment.clock_step_ns or 0
        if abs(step_ns) > MAX_CLOCKS_PARTING_NS:
            fault = run.build_fault(
                f"a UTC clock that was set by {step_ns / NS_PER_S:+,.1f} s, or a sleep",
                "monotonic clock and UTC that advance alike",
                segment.last_line,
            )
            yield replace(fault, advice=CLOCK_SET_ADVICE)
    for earlier, later in pairwise(run.segments):
        if later.head.clocks_ns[1] < earlier.head.clocks_ns[1]:
            fault = run.build_fault(
                "a segment from before the previous one",
                "segments in the order of time",
                later.line,
            )
            yield replace(fault, advice=CLOCK_SET_ADVICE)


def check_channel_times(
    run: RunConditions, segment: SampledSegment, name: str, times: Iterable[tuple[int, int]]
) -> Iterator[Fault]:
    """Yield the first time of a channel that is earlier than the previous one, or outside of the
    segment's clocks.
    """
    before, end_ns = segment.head.clocks_ns[0], segment.end.clocks_ns[0] if segment.end else None
    for t, line in times:
        if t < before or (end_ns is not None and t > end_ns):
            yield run.build_fault(
                f"{name} at {t}",
                f"from {before} on{f', at most {end_ns}' if end_ns is not None else ''}",
                line,
            )
            return
        before = t


@rule("telemetry.whole", RunConditions, About.FORM, severity=Severity.WARNING)
def whole(run: RunConditions) -> Iterator[Fault]:
    """Telemetry ends with a line that counts its readings. Only a segment of an interrupted run may
    lack it.

    Source: house rule; harness/machine/telemetry names a file when it has written its last line.
    Advice: keep the file that belongs to the run: podium writes one beside each.
    """
    for number, segment in enumerate(run.segments):
        last = number == len(run.segments) - 1
        if segment.end is None and (last or not run.resumed):
            yield run.build_fault(
                "readings without a count", "a last line that counts them", segment.last_line
            )
        elif segment.end is not None and segment.end.readings != segment.counts:
            yield run.build_fault(
                f"{segment.counts} readings",
                f"{segment.end.readings}, as in the last line",
                segment.last_line,
            )
    if len(run.segments) > 1 and not run.resumed:
        yield run.build_fault(
            f"{len(run.segments)} segments",
            "one, since the run was not interrupted",
            run.segments[1].line,
        )


@rule("telemetry.window", RunConditions, About.FORM, severity=Severity.WARNING)
def window(run: RunConditions) -> Iterator[Fault]:
    """Telemetry covers the run: it begins before the run and ends after it, without a long gap in
    between. A run that is longer than its telemetry by more than 2 s and 1 % is an error about the
    score.

    Source: house rule; the round's noise.gap_s; by the slack, see recorded_times.py. The time in
    which the machine slept is in the log, and not in telemetry.
    Advice: ignore this if the host was too busy to sample, or its clock was set; otherwise the
    telemetry belongs to another run.
    """
    if run.window is None or run.noise is None or not run.segments:
        return
    first, last = run.segments[0], run.segments[-1]
    begin_ns = first.head.clocks_ns[1]
    end_ns = last.convert_to_utc_ns(last.end.clocks_ns[0]) if last.end else None
    if begin_ns > run.window.begin_ns:
        yield run.build_fault(
            f"a start {(begin_ns - run.window.begin_ns) / NS_PER_S:.3g} s after the run's",
            "a start before the run's",
            first.line,
            **weigh_difference(run, begin_ns - run.window.begin_ns),
        )
    if end_ns is not None and end_ns < run.window.end_ns:
        slept_ns = max(0, last.clock_step_ns or 0)
        yield run.build_fault(
            f"an end {(run.window.end_ns - end_ns) / NS_PER_S:.3g} s before the run's",
            "an end after the run's",
            last.last_line,
            **weigh_difference(run, run.window.end_ns - end_ns - slept_ns),
        )
    longest_ns = max((told for told, _ in run.iterate_host_states()), default=0)
    if longest_ns > run.noise.gap_s * NS_PER_S:
        yield run.build_fault(
            f"{longest_ns / NS_PER_S:.3g} s without a host reading",
            f"at most {run.noise.gap_s:g} s",
        )


class Weight(TypedDict, total=False):
    """What a difference makes of a fault."""

    severity: Severity
    about: About


def weigh_difference(run: RunConditions, apart_ns: float) -> Weight:
    """Return what a difference between telemetry and the run's own length means: a contradiction
    about the score if it is more than the slack, and if one clock measured both. Telemetry of an
    interrupted run may have lost a segment.
    """
    if apart_ns <= run.slack_ns or run.resumed or not run.has_own_clock:
        return {}
    return {"severity": Severity.ERROR, "about": About.SCORE}


@rule("telemetry.outside", RunConditions, About.SCORE)
def outside(run: RunConditions) -> Iterator[Fault]:
    """Telemetry of a training run begins with its log and ends with its clock, by 2 s and 1 % of
    the run. Longer telemetry means training outside of the timed run. Telemetry of another node is
    a warning, since its clock may differ.

    Source: house rule; harness/training/observation.py: the sampler is ready before the first line
    of the log, and is stopped behind run_stop, before the export. If the run was killed in between,
    a segment behind run_stop completes the file. Sources of power are read for two more of their
    periods.
    Advice: repeat the run on a machine that is not so busy that a process takes seconds to end.
    """
    if run.window is None or run.opened_ns is None or not run.segments:
        return
    first, end_ns = run.segments[0], run.window.end_ns
    segment = [first, *(each for each in run.segments if each.head.clocks_ns[1] < end_ns)][-1]
    severity = None if run.has_own_clock else Severity.WARNING
    early_ns = run.opened_ns - first.head.clocks_ns[1]
    if early_ns > run.slack_ns:
        yield run.build_fault(
            f"a beginning {early_ns / NS_PER_S:.1f} s before the log's",
            f"at most {run.slack_ns / NS_PER_S:.1f} s",
            first.line,
            severity=severity,
        )
    slack_ns = run.slack_ns + LINGER_PERIODS * segment.power_period_ns
    late_ns = segment.convert_to_utc_ns(segment.last_ns) - end_ns
    if late_ns > slack_ns:
        yield run.build_fault(
            f"an end {late_ns / NS_PER_S:.1f} s after run_stop",
            f"at most {slack_ns / NS_PER_S:.1f} s",
            segment.last_line,
            severity=severity,
        )
