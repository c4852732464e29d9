"""`podium power export`: a training run's readings of whole nodes as MLPerf Training files them,
`power/result_<i>/node_<n>.txt`.

The dialect is that of mlperf_logging (mllog/constants.py, power_*; result_summarizer.py,
_compute_power_node): one line per reading, in watts, between
`power_measurement_start` and `power_measurement_stop`, which are the run's own start and stop here.
What reads a part of a node alone is not exported.
"""

import json
import re
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Final

import click

from harness.training.energy import NS_PER_MS, read_run_clock
from harness.training.mllog_writer import INTERVAL_END, INTERVAL_START, POINT_IN_TIME
from suite.errors import JudgedError, RequestError
from suite.events import TOKEN
from suite.files.layout import replace_atomically
from suite.files.untrusted_files import UnreadableError, replace_unprintable
from suite.measurement import power_readings
from suite.measurement.power_readings import PowerTrack
from suite.power import SYSTEM, Grade, Quantity
from suite.units import UW_PER_W

TRAINING_LOG_NAME: Final = re.compile(r"result_([0-9]+)\.txt")
POWER_START_KEY, POWER_READING_KEY, POWER_STOP_KEY = (
    "power_measurement_start",
    "power_reading",
    "power_measurement_stop",
)


def export_node_power(logs: Sequence[Path], target: Path) -> None:
    """Write the files of some training logs below a folder, and name them.

    RequestError for files that are no logs, or a file that is there already; JudgedError for a run
    that has no readings of a whole node.
    """
    found = [(parse_log_number(log), read_node_tracks(log)) for log in logs]
    for number, nodes in found:
        for node, (track, times) in enumerate(nodes):
            path = target / "power" / f"result_{number}" / f"node_{node}.txt"
            if path.exists():
                raise RequestError(f"{path} is there already: choose another folder with -o")
            path.parent.mkdir(parents=True, exist_ok=True)
            with replace_atomically(path) as partial:
                partial.write_text("".join(format_power_lines(track, *times, node)), "utf-8")
            click.echo(replace_unprintable(f"{path}: {track.name}, {track.grade}"))


def parse_log_number(log: Path) -> int:
    """Return a log's number from its name; RequestError for other files."""
    name = TRAINING_LOG_NAME.fullmatch(log.name)
    if name is None or not log.is_file():
        raise RequestError(f"{log}: no training log: a file such as result_0.txt is needed")
    return int(name[1])


def read_node_tracks(log: Path) -> list[tuple[PowerTrack, tuple[int, int]]]:
    """Return each node's channel, and the run's start and stop in ns of UTC; JudgedError if one of
    the two is missing.
    """
    try:
        times = read_run_clock(log)
    except (ValueError, KeyError, TypeError) as error:
        raise JudgedError(f"{log}: this is no training log that podium wrote whole") from error
    if times is None:
        raise JudgedError(f"{log}: its clock has not stopped: there is nothing to export")
    found = [(select_whole_node_track(path, *times), times) for path in find_node_telemetry(log)]
    if not found:
        raise JudgedError(f"{log}: no telemetry beside it: it was trained without a sampler")
    return found


def find_node_telemetry(log: Path) -> Iterator[Path]:
    """Yield the telemetry of a log's nodes, from the first on."""
    number = parse_log_number(log)
    for node in count():
        path = log.with_name(
            f"telemetry_{number}.jsonl" if node == 0 else f"telemetry_{number}_node{node}.jsonl"
        )
        if not path.is_file():
            return
        yield path


def select_whole_node_track(path: Path, begin_ns: int, end_ns: int) -> PowerTrack:
    """Return the channel of watts whose scope is the whole node, of several the most direct;
    JudgedError if there is none, or none with an energy.
    """
    try:
        readings = power_readings.read_power_readings(path)
    except UnreadableError as error:
        raise JudgedError(str(error)) from error
    grades = [str(grade) for grade in Grade]
    tracks = [
        track
        for track in readings.tracks.values()
        if track.scopes == (SYSTEM,) and track.quantity is Quantity.POWER and track.grade in grades
    ]
    if not tracks:
        present = (
            ", ".join(
                f"{track.name} ({' + '.join(track.scopes)})" for track in readings.tracks.values()
            )
            or "nothing"
        )
        raise JudgedError(
            f"{path}: MLPerf requires readings of a whole node, and these are of {present};"
            " --meter names a meter at the wall"
        )
    best = min(tracks, key=lambda track: grades.index(track.grade))
    measured, reasons = power_readings.compute_channel_energies(readings, begin_ns, end_ns)
    if best.name not in measured:
        raise JudgedError(f"{path}: {best.name} has no energy: {'; '.join(reasons)}")
    return best


def format_power_lines(track: PowerTrack, begin_ns: int, end_ns: int, node: int) -> Iterator[str]:
    """Yield the file's lines: the readings after the start, up to the stop."""
    inside = [
        (t, value)
        for t, value in zip(track.times_ns, track.values, strict=True)
        if begin_ns < t <= end_ns
    ]
    yield format_power_event(INTERVAL_START, POWER_START_KEY, None, begin_ns, node)
    yield from (
        format_power_event(POINT_IN_TIME, POWER_READING_KEY, value / UW_PER_W, t, node)
        for t, value in inside
    )
    yield format_power_event(INTERVAL_END, POWER_STOP_KEY, None, end_ns, node)


def format_power_event(
    event_type: str, key: str, value: float | None, utc_ns: int, node: int
) -> str:
    event = {
        "namespace": "",
        "time_ms": utc_ns // NS_PER_MS,
        "event_type": event_type,
        "key": key,
        "value": value,
        "metadata": {"host": f"node_{node}"},
    }
    return TOKEN + json.dumps(event, allow_nan=False) + "\n"
