"""Check the steady window that a point of a curve states."""

from collections.abc import Iterator
from typing import Final

from compliance.kinds.endpoints.documents.result_summary import Series
from compliance.kinds.endpoints.rules.run_counts import START_NS, SUMMED_TOLERANCE
from compliance.kinds.endpoints.rules.run_series import is_whole_histogram, list_value_ranges
from compliance.kinds.endpoints_curve.documents.point import WINDOWABLE, EndpointsPoint
from compliance.kinds.endpoints_curve.rules.point import (
    MAX_QUOTED_CHARACTERS,
    WINDOW,
    find_issued_size,
    is_whole_number,
)
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.units import NS_PER_S

STATUSES: Final = (WINDOWABLE, "insufficient_duration", "insufficient_passes", "partial_dataset")
VERDICTS: Final = ("STEADY STATE", "drifting_up", "drifting_down", "anomaly", "not found")
METRIC_STATES: Final = ("Plateau", "Drifting Up", "Drifting Down")
WINDOW_FIELDS: Final = (
    "super_pass_start",
    "super_pass_end",
    "super_pass_size",
    "n_samples",
    "duration_s",
)


@rule(
    "endpoints.steady_window", EndpointsPoint, About.SCORE, doubt="the time that the figure is of"
)
def steady_window(point: EndpointsPoint) -> Iterator[Fault]:
    """The steady window that a point states is possible: no longer than its run, of no more samples
    than completed, of whole passes, of at least four of them if it supplies the official figures,
    without drift, and long enough for the latencies of its samples with its requests in flight.

    Source: Endpoints rules, 4.4; Little's law.
    Advice: find the window with the client's detector, and copy what it says.
    """
    stated = point.find_value("steady_state")
    if not isinstance(stated, dict):
        if stated is not None:
            yield point.build_fault("steady_state without fields", "status, verdict and window")
        return
    yield from check_window_words(point)
    yield from check_window_fields(point)
    begin, end, size = (
        point.find_integer(*WINDOW, f"super_pass_{name}") for name in ("start", "end", "size")
    )
    if begin is None or end is None:
        passes = None
    else:
        passes = end - begin + 1
    if passes is not None and (passes < 1 or (begin or 0) < 0):
        yield point.build_fault(f"a window of passes {begin} to {end}", "passes in their order")
        return
    if passes is not None and point.is_windowed and passes < point.round.rules.min_passes:
        yield point.build_fault(
            f"{passes} passes in a windowable window", f"{point.round.rules.min_passes} or more"
        )
    too_few = point.find_text("steady_state", "status") == "insufficient_passes"
    if passes is not None and too_few and passes >= point.round.rules.min_passes:
        yield point.build_fault(
            f"status insufficient_passes with {passes} passes",
            f"fewer than {point.round.rules.min_passes}",
        )
    yield from check_window_extent(point, None if passes is None or not size else passes * size)
    samples = find_issued_size(point)
    if size is not None and samples is not None and (size < 1 or size % samples):
        yield point.build_fault(
            f"super_pass_size {size}",
            f"a multiple of {samples}, the data set",
            severity=Severity.WARNING,
        )


def check_window_words(point: EndpointsPoint) -> Iterator[Fault]:
    """Yield words that the rules do not have, and drift in a window that supplies the figures."""
    for name, values in (("status", STATUSES), ("verdict", VERDICTS)):
        found = point.find_value("steady_state", name)
        if found is not None and found not in values:
            yield point.build_fault(f"{name} {found}", f"one of {', '.join(values)}")
    states = point.find_value("steady_state", "state")
    if not isinstance(states, dict):
        return
    for metric, found in states.items():
        if found not in METRIC_STATES:
            yield point.build_fault(f"{metric} {found}", f"one of {', '.join(METRIC_STATES)}")
        elif point.is_windowed and found != METRIC_STATES[0]:
            yield point.build_fault(f"{metric} {found} in a windowable window", METRIC_STATES[0])


def check_window_fields(point: EndpointsPoint) -> Iterator[Fault]:
    """Yield fields of a window that are no numbers, and those that a window needs if it supplies
    the official figures.
    """
    for name in WINDOW_FIELDS:
        found = point.find_value(*WINDOW, name)
        number = point.find_number(*WINDOW, name)
        if found is None and point.is_windowed:
            yield point.build_fault(f"a windowable window without {name}", "its passes and time")
        elif found is not None and (
            number is None or (name != "duration_s" and not is_whole_number(number))
        ):
            yield point.build_fault(f"window.{name} {found}"[:MAX_QUOTED_CHARACTERS], "a number")
    verdict = point.find_value("steady_state", "verdict")
    if point.is_windowed and verdict is not None and verdict != VERDICTS[0]:
        yield point.build_fault(
            f"verdict {verdict} of a windowable window", VERDICTS[0], severity=Severity.WARNING
        )


def check_window_extent(point: EndpointsPoint, wanted: int | None) -> Iterator[Fault]:
    """Yield a window that is longer than its run, or has other samples than its passes."""
    seconds = point.find_number(*WINDOW, "duration_s")
    samples = point.find_integer(*WINDOW, "n_samples")
    if samples is not None and wanted is not None and samples != wanted:
        yield point.build_fault(f"{samples} samples in the window", f"{wanted}, by its passes")
    summary = point.summary
    if summary is None:
        return
    completed, duration = summary.n_samples_completed, summary.duration_ns
    counted = samples if samples is not None else wanted
    if counted is not None and completed is not None and not 0 < counted <= completed:
        yield point.build_fault(
            f"{counted} samples in the window", f"above 0, at most {completed}, the completed ones"
        )
    if seconds is not None and duration and not 0 < seconds <= duration / NS_PER_S:
        yield point.build_fault(
            f"a window of {seconds} s", f"above 0, at most {duration / NS_PER_S:.6g} s, the run"
        )
    if seconds and counted and duration and completed and 0 < seconds <= duration / NS_PER_S:
        yield from check_window_rate(point, counted / seconds, completed * NS_PER_S / duration)
        yield from check_window_flow(point, counted, seconds)


def check_window_rate(point: EndpointsPoint, window: float, whole: float) -> Iterator[Fault]:
    """Yield a window whose rate of samples is far from the run's: ramp and drain lower the run's by
    less than a half.
    """
    if not whole / 2 < window < whole * 2:
        yield point.build_fault(
            f"{window:.4g} samples/s in the window",
            f"about {whole:.4g}, as in the whole run",
            severity=Severity.WARNING,
        )


def check_window_flow(point: EndpointsPoint, counted: int, seconds: float) -> Iterator[Fault]:
    """Yield a window that is too short: the latencies of the samples issued in it add up to at most
    those of so many requests in flight for its time and, since the last ones end after it, of so
    many more. Whichever samples they are, they take at least what is left without the highest.
    """
    summary, held = point.summary, point.concurrency
    if summary is None or point.is_offline_run or not held or held < 0:
        return
    latency, completed = summary.latency, summary.n_samples_completed
    if latency.total is None or latency.count != completed or not is_whole_histogram(latency):
        return
    outside = add_highest_values(latency, latency.count - counted)
    least = (latency.total - outside - add_highest_values(latency, held)) / held / NS_PER_S
    if counted == completed and summary.duration_ns and latency.max is not None:
        # all samples are issued in it, and none ends later than the run
        least = max(least, (summary.duration_ns - latency.max - START_NS) / NS_PER_S)
    if seconds < least * (1 - SUMMED_TOLERANCE):
        yield point.build_fault(
            f"a window of {seconds:.6g} s for {counted} samples",
            f"{least:.6g} s or more, with {held} requests in flight",
        )


def add_highest_values(each: Series, count: int) -> float:
    """Return at most how much the highest values of a series add up to."""
    total, left = 0.0, count
    for _, high, held in reversed(list_value_ranges(each)):
        total += min(held, left) * high
        left -= min(held, left)
    return total
