"""By how much the times of one run may differ between its records, and what podium's record of
queries says of LoadGen's times.

podium's stamps lie within LoadGen's: a query is issued behind the stamp that LoadGen issues it by,
and done before the one that LoadGen completes it by. What a thread waits between the two lengthens
LoadGen's figures, never podium's.
"""

import math
from typing import Any, Final

from compliance.kinds.podium.documents.inference import LoadGenRun
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

WALL_CLOCK_DRIFT: Final = 1e-3
"""Relative: LoadGen reads the wall clock (loadgen/utils.h, PerfClock), podium the monotonic one. A
time server slews the wall clock against it; NTP by 0.05 %.
"""

SLACK_S: Final = 2.0
SLACK_SHARE: Final = 0.01
"""House rule: two records of one run may tell of its length by 2 s and 1 % of it differently. In
four honest runs beside other work, telemetry ended 0.2 to 0.4 s behind the clock, and a ledger's
step was written in the second of the log's last line.
"""


def compute_time_slack_s(length_s: float) -> float:
    """Return by how many seconds the records of a run of this length may differ."""
    return SLACK_S + SLACK_SHARE * length_s


def has_whole_record(run: LoadGenRun) -> bool:
    """Return whether queries.npy has all samples that LoadGen counted."""
    counts = run.find_numbers("result_query_count", "generated_samples_per_query")
    if run.queries is None or counts is None or not 0 < len(run.queries) < MAX_QUERY_RECORD_ROWS:
        return False
    per_row = run.scenario is not Scenario.OFFLINE
    return (not per_row or len(run.queries) == counts[0]) and int(
        run.queries.samples.sum()
    ) == counts[0] * counts[1]


def compute_recorded_span_ms(run: LoadGenRun) -> float | None:
    """Return the milliseconds from the first issue to the last completion in queries.npy; None
    without the whole record.
    """
    if not has_whole_record(run) or run.queries is None:
        return None
    return float(run.queries.done_ns.max() - run.queries.issued_ns.min()) / NS_PER_MS


def compute_clock_error_ms(run: LoadGenRun, span_ms: float) -> float:
    """Return by how much less than the monotonic clock the wall clock may have gone on over a span:
    it may be slewed, and telemetry tells if it was set back. A clock that was set back between the
    first query and the last one has shortened LoadGen's own time of the run as well.
    """
    recorded_ms, wall_ms = compute_recorded_span_ms(run), run.wall_ms
    missing_ms = max(0.0, recorded_ms - wall_ms) if recorded_ms and wall_ms else math.inf
    set_back_ms = max(0, -compute_clock_step_ns(run)) / NS_PER_MS
    return WALL_CLOCK_DRIFT * span_ms + min(set_back_ms, missing_ms)


def compute_clock_step_ns(run: LoadGenRun) -> int:
    """Return by how much the wall clock was set during a run, by its telemetry; 0 if that is
    unknown.
    """
    segments = run.telemetry.segments if run.telemetry and run.telemetry.is_valid else ()
    return sum(each.clock_step_ns or 0 for each in segments)


def list_query_gaps_ns(run: LoadGenRun) -> Any:
    """Return the times from each completion in a stream's record to the next issue, an array
    (queries - 1,).
    """
    assert run.queries is not None
    return run.queries.issued_ns[1:] - run.queries.done_ns[:-1]
