"""The search for the most samples per MultiStream query within a bound: doubling, then bisection
over integers, one full run each.

House rule: since LoadGen 2.0, MultiStream is a closed loop, and MLPerf searches for nothing there;
until v0.7 it asked for the most streams.
"""

from collections.abc import Sequence
from typing import Final

from suite.loadgen.headline import VALID_RUN
from suite.studies.peak_search import NextRun
from suite.studies.rates import PeakRequest, RateAttempt

MAX_SAMPLES_PER_QUERY: Final = 4096
"""Samples per query, house rule; more is a throughput run."""


def choose_multi_stream_step(sought: PeakRequest, trials: Sequence[RateAttempt]) -> NextRun | None:
    """Return the next run; None if the highest number within the bound is known to the
    tolerance.
    """
    good = max((int(trial.rate) for trial in trials if trial.verdict == VALID_RUN), default=0)
    bad = min(
        (int(trial.rate) for trial in trials if trial.verdict != VALID_RUN and trial.rate > good),
        default=0,
    )
    if not trials:
        samples = max(1, min(int(sought.seen), MAX_SAMPLES_PER_QUERY))
    elif not bad:
        samples = min(2 * good, MAX_SAMPLES_PER_QUERY) if good < MAX_SAMPLES_PER_QUERY else 0
    elif not good:
        samples = bad // 2
    else:
        samples = (good + bad) // 2 if bad - good > max(1, sought.tolerance * good) else 0
    return NextRun(rate=float(samples), queries=sought.min_queries, full=True) if samples else None
