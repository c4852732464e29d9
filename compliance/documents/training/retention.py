"""Limits how much of a published training log stays in memory: a log may have a gigabyte, of which
the judge needs a few hundred records.

If an event repeats without end, only its first records and those with new information are kept.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from compliance.logs.mllog.published import Entry
from suite.events import RUN_EVENTS

RUN_LIMIT: Final = 40_000
"""Run events kept per log, in full and in order; accepted logs have up to 1,000."""
REPEAT_LIMIT: Final = 4_096
"""Records kept of any other event; accepted logs have up to 2,048 of init_start."""
NAME_LIMIT: Final = 4_096
"""Number of different events per log."""


def keep(records: Iterable[Entry]) -> tuple[list[Entry], dict[str, list[Entry]], Counter[str]]:
    """Return the records to keep, those of the run in order and all by event, and the number of
    records dropped of each event.

    If a log has more different events than the limit, the excess ones are not kept.
    """
    records = iter(records)
    first = list(
        islice(records, min(RUN_LIMIT, REPEAT_LIMIT, NAME_LIMIT))
    )  # no limit is exceeded among these
    run = [record for record in first if record.key in RUN_EVENTS]
    index: defaultdict[str, list[Entry]] = defaultdict(list)
    for record in first:
        index[record.key].append(record)
    dropped: Counter[str] = Counter()
    for record in records:
        key = record.key
        of_run = key in RUN_EVENTS
        kept = index.get(key)
        if kept is None:
            if len(index) >= NAME_LIMIT and not of_run:
                continue
            kept = index[key] = []
        if (
            len(run) == RUN_LIMIT
            if of_run
            else len(kept) >= REPEAT_LIMIT and not is_news(record, kept)
        ):
            dropped[key] += 1
            continue
        kept.append(record)
        if of_run:
            run.append(record)
    return run, dict(index), dropped


def is_news(record: Entry, kept: Sequence[Entry]) -> bool:
    """Return whether a record of an event repeated thousands of times has new information, as long
    as there is room.
    """
    return len(kept) < 2 * REPEAT_LIMIT and record.value != kept[0].value
