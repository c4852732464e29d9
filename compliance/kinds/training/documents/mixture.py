"""Find several runs, or the records of several processes, in one training log: one cause of many
defects.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Final

from compliance.kinds.training.logs.published import PublishedRecord
from suite import events

OPENING_EVENTS: Final = (events.CACHE_CLEAR, events.INIT_START)
"""Events with which a run's records begin."""
HEADER_EVENTS: Final = (*OPENING_EVENTS, events.INIT_STOP, events.SUBMISSION_BENCHMARK)
"""Events of which a whole run has one: a resumed run may begin with run_start."""
ENDING_EVENTS: Final = (events.RUN_STOP, events.EVAL_ACCURACY)
"""Events of which a run has one before another run can begin behind it."""
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
        return describe_several_runs(index, openings)
    counts = [len(index.get(key, ())) for key in CLOCK_EVENTS]
    if counts.count(len(starts)) < 2:
        return None
    all_or_most = "most records stand"
    if len({*counts} - {0}) == 1:
        all_or_most = "every record stands"
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
    before, in the file and by the clock; a run that died ended with its last result.
    """
    starts = index.get(events.RUN_START, ())
    ending = sort_by_order(index, ENDING_EVENTS)
    opening = sort_by_order(index, OPENING_EVENTS)
    found = []
    for earlier, start in pairwise(starts):
        ends = [end for end in ending if earlier.order < end.order < start.order]
        stop = next((end for end in reversed(ends) if end.key == events.RUN_STOP), None)
        end = stop or earlier
        first = next((each for each in opening if end.order < each.order < start.order), None)
        latest_ns = (ends[-1] if ends and not first else end).time_ns
        if start.time_ns >= latest_ns and (first or ends) and start.time_ns != earlier.time_ns:
            found.append(first or start)
    return found


def sort_by_order(
    index: Mapping[str, Sequence[PublishedRecord]], keys: Iterable[str]
) -> Sequence[PublishedRecord]:
    """Return the records of some events in the file's order."""
    return sorted(
        (record for key in keys for record in index.get(key, ())),
        key=lambda record: record.order,
    )


def describe_several_runs(
    index: Mapping[str, Sequence[PublishedRecord]], openings: Sequence[PublishedRecord]
) -> LogMixture:
    """Describe runs that follow one another, and what to keep of them."""
    first, last = openings[0], openings[-1]
    count = len(openings) + 1
    if count - 2 < len(NUMBER_WORDS):
        word = NUMBER_WORDS[count - 2]
    else:
        word = str(count)
    places = [f"the second begins in line {first.line} ({first.key})"]
    if last is not first:
        places.append(f"the last in line {last.line} ({last.key})")
    return LogMixture(
        found=f"{word} runs in one file: {', '.join(places)}",
        required="one run per file",
        advice=advise_on_runs(index, openings),
        line=first.line,
    )


def advise_on_runs(
    index: Mapping[str, Sequence[PublishedRecord]], openings: Sequence[PublishedRecord]
) -> str:
    """Say which lines to delete so that the one whole run stays; to split the file if several are
    whole, and to repeat the run if none is.
    """
    bounds = [-1, *(record.order for record in openings)]
    whole = [
        number
        for number, (begin, end) in enumerate(zip_longest(bounds, bounds[1:]))
        if has_whole_run(index, begin, end)
    ]
    if not whole:
        return "none of them is whole: repeat the run, with one file per run."
    if len(whole) > 1:
        *lines, last = (str(record.line) for record in openings)
        return f"split it into one file per run, from lines {', '.join(['1', *lines])} and {last}."
    kept = whole[0]
    before = ""
    if kept:
        before = f"lines 1 to {openings[kept - 1].line - 1}"
    behind = ""
    if kept < len(openings):
        behind = f"line {openings[kept].line} and all that follow"
    if not kept:
        name = "first"
    elif kept == len(openings):
        name = "last"
    else:
        name = "whole one"
    return f"keep the {name}: delete {' and '.join(filter(None, (before, behind)))}."


def has_whole_run(
    index: Mapping[str, Sequence[PublishedRecord]], begin: int, end: int | None
) -> bool:
    """Return whether the records from `begin` up to `end`, by their order, have a run's header, its
    start and its end.
    """
    return all(
        any(
            begin <= record.order and (end is None or record.order < end)
            for record in sort_by_order(index, keys)
        )
        for keys in (HEADER_EVENTS, (events.RUN_START,), (events.RUN_STOP,))
    )
