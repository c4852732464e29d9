"""Limit how much of a published training log stays in memory: a log may have a gigabyte, of which
the judge needs a few hundred records.

If an event repeats without end, only its first records and those with new information are kept.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

from compliance.kinds.training.logs.published import PublishedRecord
from compliance.logs.log_index import LogIndex
from suite.events import RUN_EVENTS

MAX_RUN_EVENTS: Final = 40_000
"""Run events kept per log, in full and in order; accepted logs have up to 1,000."""
MAX_REPEATED_RECORDS: Final = 4_096
"""Records kept of any other event; accepted logs have up to 2,048 of init_start."""
MAX_EVENT_NAMES: Final = 4_096
"""Number of different events per log."""


def select_retained_records(
    records: Iterable[PublishedRecord],
) -> tuple[list[PublishedRecord], LogIndex[PublishedRecord], Counter[str]]:
    """Return the records to keep, those of the run in order and all by event, and the number of
    records dropped of each event.

    If a log has more different events than the limit, the excess ones are not kept.
    """
    records = iter(records)
    # no limit is exceeded among these
    first = list(islice(records, min(MAX_RUN_EVENTS, MAX_REPEATED_RECORDS, MAX_EVENT_NAMES)))
    run = [record for record in first if record.key in RUN_EVENTS]
    index = LogIndex(first)
    dropped: Counter[str] = Counter()
    for record in records:
        key = record.key
        is_run_event = key in RUN_EVENTS
        retained = index.get(key)
        if retained is None:
            if len(index) >= MAX_EVENT_NAMES and not is_run_event:
                continue
            retained = index[key] = []
        if is_run_event:
            is_excess = len(run) == MAX_RUN_EVENTS
        else:
            is_excess = len(retained) >= MAX_REPEATED_RECORDS and not has_new_information(
                record, retained
            )
        if is_excess:
            dropped[key] += 1
            continue
        retained.append(record)
        if is_run_event:
            run.append(record)
    return run, index, dropped


def has_new_information(record: PublishedRecord, retained: Sequence[PublishedRecord]) -> bool:
    """Return whether a record of an event repeated thousands of times has new information, as long
    as there is room.
    """
    return len(retained) < 2 * MAX_REPEATED_RECORDS and record.value != retained[0].value
