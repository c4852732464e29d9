"""The text format of logs before v0.6: `MLPerf: <benchmark> [<month/day/year hour:minute:second>],
<tag>[: <value>]`.

Source: the logs themselves; mlcommons/training, compliance/mlperf_compliance, for the tag names.
Tags are translated to the
equivalent ones of later rounds, so that one set of rules reads both.
"""

import calendar
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from compliance.logs.mllog.mllog_lines import marked_lines
from compliance.logs.source_file import Kind, SourceFile, shown

MARK: Final = b"MLPerf: "
LINE: Final = re.compile(
    rb"MLPerf: (\w+) \[(\d\d/\d\d/\d\d \d\d:\d\d:\d\d)\], ([^:]*)(?::\s*(.*))?"
)
ACCURACY: Final = re.compile(rb'\{"value": (\d+(?:\.\d+)?)%, "epoch": (\d+)\}')
RUNTIME: Final = re.compile(rb"(\d+(?:\.\d+)?) minutes")
TOTAL: Final = "total_runtime_minutes"
"""Key used here for `Total runtime`."""
NUMBERS: Final = frozenset({"input_batch_size", "input_size", "preproc_num_train_examples"})
NAMES: Final = {"Total runtime": TOTAL, "run_set_random_seed": "seed", "train_epoch": "epoch_start"}
"""Tags -> the equivalent ones of later rounds."""


def read(source: SourceFile) -> Iterator[tuple[int, int, str, Any, dict[str, Any]]]:
    """Yield each line's offset, time in ns (of whole seconds), key, value and metadata; a first
    record names the benchmark.
    """
    first = True
    for line in marked_lines(source, MARK):
        for part in re.split(rb"(?=MLPerf: )", line.text):
            if not part.startswith(MARK):
                continue
            match = LINE.match(part)
            if not match:
                source.add(
                    Kind.FOREIGN,
                    shown(part),
                    "MLPerf: <benchmark> [<date>], <tag>; processes wrote over one another",
                    line.number,
                )
                continue
            time_ns = clock(source, match[2], line.number)
            if first:
                first = False
                yield line.offset, time_ns, "submission_benchmark", match[1].decode(), {}
            key = match[3].strip().decode("latin-1")
            yield (
                line.offset,
                time_ns,
                NAMES.get(key, key),
                *meaning(source, key, match[4], line.number),
            )


def clock(source: SourceFile, text: bytes, line: int) -> int:
    """Parse a date to nanoseconds since 1970, as if it were UTC: only differences count."""
    try:
        return calendar.timegm(time.strptime(text.decode(), "%m/%d/%y %H:%M:%S")) * 1_000_000_000
    except ValueError:
        source.add(Kind.RECORD, shown(text), "a date and time that there are", line)
        return 0


def meaning(
    source: SourceFile, key: str, text: bytes | None, line: int
) -> tuple[Any, dict[str, Any]]:
    """Parse the values that rules use; others stay text."""
    told = (text or b"").strip()
    if key == "eval_accuracy":
        match = ACCURACY.fullmatch(told)
        if not match:
            source.add(
                Kind.SHAPE,
                f"eval_accuracy {shown(told)}",
                '{"value": <percent>%, "epoch": <number>}',
                line,
            )
            return None, {}
        return float(match[1]) / 100, {"epoch_num": int(match[2])}
    if key == "Total runtime":
        match = RUNTIME.fullmatch(told)
        if not match:
            source.add(Kind.SHAPE, f"Total runtime {shown(told)}", "<number> minutes", line)
        return (float(match[1]) if match else None), {}
    if key == "train_epoch":
        return None, {"epoch_num": int(told) if told.isdigit() else None}
    if key in NUMBERS and told.isdigit():
        return int(told), {}
    return told.decode("latin-1"), {}
