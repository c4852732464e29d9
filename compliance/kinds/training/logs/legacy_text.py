"""Parse the text format of logs before v0.6: `MLPerf: <benchmark> [<month/day/year
hour:minute:second>], <tag>[: <value>]`.

Source: the logs themselves; mlcommons/training, compliance/mlperf_compliance, for the tag names.
Tags are translated to the equivalent tags of later rounds, so that one set of rules reads both.
"""

import calendar
import re
import time
from collections.abc import Iterator
from typing import Any, Final

from compliance.logs.mllog.mllog_lines import iterate_marked_lines
from compliance.logs.source_file import ParseErrorKind, SourceFile, format_excerpt

TEXT_RECORD_MARK: Final = b"MLPerf: "
TEXT_RECORD_PATTERN: Final = re.compile(
    rb"MLPerf: (\w+) \[(\d\d/\d\d/\d\d \d\d:\d\d:\d\d)\], ([^:]*)(?::\s*(.*))?"
)
EVAL_ACCURACY_PATTERN: Final = re.compile(rb'\{"value": (\d+(?:\.\d+)?)%, "epoch": (\d+)\}')
RUNTIME_MINUTES_PATTERN: Final = re.compile(rb"(\d+(?:\.\d+)?) minutes")
TOTAL_RUNTIME_KEY: Final = "total_runtime_minutes"
"""Key for `Total runtime`."""
NUMBER_TAGS: Final = frozenset({"input_batch_size", "input_size", "preproc_num_train_examples"})
TAG_TRANSLATIONS: Final = {
    "Total runtime": TOTAL_RUNTIME_KEY,
    "run_set_random_seed": "seed",
    "train_epoch": "epoch_start",
}
"""Tags -> the equivalent tags of later rounds."""


def read_text_records(source: SourceFile) -> Iterator[tuple[int, int, str, Any, dict[str, Any]]]:
    """Yield each line's offset, time in ns (of whole seconds), key, value and metadata; a first
    record names the benchmark.
    """
    first = True
    for line in iterate_marked_lines(source, TEXT_RECORD_MARK):
        for part in re.split(rb"(?=MLPerf: )", line.text):
            if not part.startswith(TEXT_RECORD_MARK):
                continue
            match = TEXT_RECORD_PATTERN.match(part)
            if not match:
                source.add_parse_error(
                    ParseErrorKind.FOREIGN,
                    format_excerpt(part),
                    "MLPerf: <benchmark> [<date>], <tag>; several processes wrote into this line",
                    line.number,
                )
                continue
            time_ns = parse_text_date_ns(source, match[2], line.number)
            if first:
                first = False
                yield line.offset, time_ns, "submission_benchmark", match[1].decode(), {}
            key = match[3].strip().decode("latin-1")
            yield (
                line.offset,
                time_ns,
                TAG_TRANSLATIONS.get(key, key),
                *parse_tag_value(source, key, match[4], line.number),
            )


def parse_text_date_ns(source: SourceFile, text: bytes, line: int) -> int:
    """Parse a date to nanoseconds since 1970, as if it were UTC: only differences count."""
    try:
        return calendar.timegm(time.strptime(text.decode(), "%m/%d/%y %H:%M:%S")) * 1_000_000_000
    except ValueError:
        source.add_parse_error(
            ParseErrorKind.RECORD, format_excerpt(text), "an existing date and time", line
        )
        return 0


def parse_tag_value(
    source: SourceFile, key: str, text: bytes | None, line: int
) -> tuple[Any, dict[str, Any]]:
    """Parse the values that rules use; others stay text."""
    stripped = (text or b"").strip()
    if key == "eval_accuracy":
        match = EVAL_ACCURACY_PATTERN.fullmatch(stripped)
        if not match:
            source.add_parse_error(
                ParseErrorKind.SHAPE,
                f"eval_accuracy {format_excerpt(stripped)}",
                '{"value": <percent>%, "epoch": <number>}',
                line,
            )
            return None, {}
        return float(match[1]) / 100, {"epoch_num": int(match[2])}
    if key == "Total runtime":
        match = RUNTIME_MINUTES_PATTERN.fullmatch(stripped)
        if not match:
            source.add_parse_error(
                ParseErrorKind.SHAPE,
                f"Total runtime {format_excerpt(stripped)}",
                "<number> minutes",
                line,
            )
        return (float(match[1]) if match else None), {}
    if key == "train_epoch":
        return None, {"epoch_num": int(stripped) if stripped.isdigit() else None}
    if key in NUMBER_TAGS and stripped.isdigit():
        return int(stripped), {}
    return stripped.decode("latin-1"), {}
