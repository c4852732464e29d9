"""Find several runs, or the records of several processes, in one training log: one cause of many
defects.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from compliance.logs.mllog.published import PublishedRecord
from suite import events

OPENING_EVENTS: Final = (events.CACHE_CLEAR, events.INIT_START)
"""Events with which a run's records begin."""
CLOCK_EVENTS: Final = (events.INIT_STOP, events.RUN_START, events.RUN_STOP)
"""Events that a run logs once."""
NUMBER_WORDS: Final = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMixture:
    """What a log has more than one of."""

    found: str
    required: str
    advice: str
    line: int
    """Where the second one begins."""


def find_log_mixture(index: Mapping[str, Sequence[PublishedRecord]]) -> LogMixture | None:
    """Return what makes a log with several starts of a run more than one log; None if nothing does,
    so that only a record is repeated.
    """
    starts = index.get(events.RUN_START, ())
    if len(starts) < 2:
        return None
    openings = find_run_openings(index)
    if len(openings) == len(starts) - 1:
        return describe_several_runs(openings)
    counts = [len(index.get(key, ())) for key in CLOCK_EVENTS]
    if counts.count(len(starts)) < 2:
        return None
    all_or_most = "every record stands" if len({*counts} - {0}) == 1 else "most records stand"
    return LogMixture(
        found=f"{all_or_most} {len(starts)} times",
        required="the records of one process",
        advice="log from rank 0 alone, through one handler.",
        line=starts[1].line,
    )


def find_run_openings(
    index: Mapping[str, Sequence[PublishedRecord]],
) -> Sequence[PublishedRecord]:
    """Return the first record of each run but the first, if it began behind the end of the one
    before, in the file and by the clock.
    """
    starts, stops = index.get(events.RUN_START, ()), index.get(events.RUN_STOP, ())
    opening = sorted(
        (record for key in OPENING_EVENTS for record in index.get(key, ())),
        key=lambda record: record.order,
    )
    found = []
    for earlier, start in zip(starts, starts[1:], strict=False):
        ends = [stop for stop in stops if earlier.order < stop.order < start.order]
        end = ends[-1] if ends else earlier
        first = next((each for each in opening if end.order < each.order < start.order), None)
        if start.time_ns >= end.time_ns and (first or ends) and start.time_ns != earlier.time_ns:
            found.append(first or start)
    return found


def describe_several_runs(openings: Sequence[PublishedRecord]) -> LogMixture:
    """Describe runs that follow one another, and what to keep of them."""
    first, last = openings[0], openings[-1]
    count = len(openings) + 1
    word = NUMBER_WORDS[count - 2] if count - 2 < len(NUMBER_WORDS) else str(count)
    places = [f"the second begins in line {first.line} ({first.key})"]
    if last is not first:
        places.append(f"the last in line {last.line} ({last.key})")
    return LogMixture(
        found=f"{word} runs in one file: {', '.join(places)}",
        required="one run per file",
        advice=f"keep the last: delete lines 1 to {last.line - 1}.",
        line=first.line,
    )
