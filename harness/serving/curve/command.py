"""`podium curve`: measures a point for each number of requests in flight, and prints and saves the
table.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.distributed import SingleRank
from harness.machine.system_description import describe_system
from harness.serving.curve.points import (
    POINT_FOLDER_FORMAT,
    CurveSubject,
    is_curve_point_measured,
    read_curve_point,
    run_valid_point,
)
from harness.serving.network.setup import (
    EndpointOptions,
    describe_remote_system,
    set_up_remote_serving,
)
from harness.serving.setup import ServingSetup, check_serving_precision, set_up_serving
from harness.serving.speed_probe import probe_serving_speed
from harness.serving.study_machine import describe_study_machine
from harness.serving.weights.speed import build_speed_stamps
from harness.thread_count import resolve_thread_count
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.layout import convert_to_slug, find_owning_results
from suite.files.superseded import move_to_superseded
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.scenario import Scenario
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.studies.concurrency_curve import (
    CURVE_KIND,
    CURVE_NOTE,
    CURVE_ROUND,
    LOCAL_CONCURRENCY_SETTING,
    REMOTE_CONCURRENCY_SETTING,
    ConcurrencyCurve,
    CurvePoint,
    divide_into_regions,
    find_curve_region,
)
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE
from suite.studies.rates import StudyStamps
from suite.units import MS_PER_S

CURVE_DECODER: Final = msgspec.json.Decoder(ConcurrencyCurve)
STREAMED_SETTING: Final = "endpoint.stream=true"
"""Offline's answers are not streamed otherwise, and a curve needs their first tokens."""
HTTP_PREFIX: Final = "http"
CURVE_COLUMNS: Final = (
    "in flight",
    "region",
    "tokens/s",
    "per user",
    "TTFT p90 ms",
    "TPOT p90 ms",
    "mean in flight",
    "s",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveOptions:
    """The command line's request for a curve."""

    concurrencies: tuple[int, ...]
    """Rising."""
    seconds: float | None
    """Of each point, at least; None: as the round asks of Offline."""
    endpoint_options: EndpointOptions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurveSession:
    """A curve under way."""

    setups: Mapping[int, ServingSetup]
    """Number in flight -> the system under test."""
    stamps: StudyStamps
    seconds: float
    """Of each point, at least."""
    study_folder: Path

    def build_subject(self, concurrency: int) -> CurveSubject:
        """Return what is measured at a point."""
        return CurveSubject(
            serving_setup=self.setups[concurrency],
            concurrency=concurrency,
            stamps=self.stamps,
            seconds=self.seconds,
            folder=self.study_folder / self.stamps.system / POINT_FOLDER_FORMAT.format(concurrency),
        )


def measure_curve(
    workload: str,
    options: RunOptions,
    curve_options: CurveOptions,
    checkpoint: Path | None,
    output_format: str,
) -> None:
    """Measure, print and save; JudgedError for a point that LoadGen does not call VALID."""
    setups = {
        number: set_up_curve_point(workload, options, checkpoint, curve_options, number)
        for number in curve_options.concurrencies
    }
    largest = setups[max(setups)]
    check_curve_system(largest)
    seconds = resolve_point_seconds(largest, curve_options.seconds)
    study_folder = build_curve_study_path(largest)
    try:
        with (
            raise_signals_in_block(),
            lock_results_folder(largest.entry.results),
            redirect_stdout(sys.stderr if output_format == "json" else sys.stdout),
        ):
            found = measure_curve_points(
                build_curve_session(setups, options.threads, seconds, study_folder)
            )
    except Interrupted as error:
        raise type(error)(
            f"{workload}: {error}; what was measured is kept, and the same command continues"
        ) from error
    if output_format == "json":
        click.echo(json.dumps(asdict(found), indent=2))
    else:
        click.echo(f"{format_curve_table(found)}\nsaved in {study_folder}")


def set_up_curve_point(
    workload: str,
    options: RunOptions,
    checkpoint: Path | None,
    curve_options: CurveOptions,
    concurrency: int,
) -> ServingSetup:
    """Resolve the system under test of one point: `podium infer`'s, with one setting more;
    RequestError if the user gave that setting, or a server without streams.
    """
    endpoint_options = curve_options.endpoint_options
    name = REMOTE_CONCURRENCY_SETTING if endpoint_options else LOCAL_CONCURRENCY_SETTING
    if any(each.partition("=")[0] == name for each in options.assignments):
        raise RequestError(f"--set {name}: --points decides it")
    own = (f"{name}={concurrency}",)
    if endpoint_options is None:
        chosen = replace(options, assignments=(*options.assignments, *own))
        return set_up_serving(workload, chosen, checkpoint)
    for endpoint in endpoint_options.endpoints:
        if not endpoint.startswith(HTTP_PREFIX):
            raise RequestError(f"--endpoint {endpoint}: a curve needs a server that streams tokens")
    chosen = replace(options, assignments=(*options.assignments, *own, STREAMED_SETTING))
    return set_up_remote_serving(workload, chosen, checkpoint, endpoint_options)


def check_curve_system(serving_setup: ServingSetup) -> None:
    """RequestError for a workload whose answers are not generated token by token, and for several
    devices.
    """
    if not serving_setup.require_scenario_rules(Scenario.OFFLINE).token_latencies:
        raise RequestError(
            f"{serving_setup.request.name}: its answers are not generated token by token; see"
            " podium sweep"
        )
    if serving_setup.system.placement:
        raise RequestError("podium curve measures one process, or servers: name one --device")
    if not serving_setup.server_description:
        check_serving_precision(serving_setup)


def resolve_point_seconds(serving_setup: ServingSetup, asked: float | None) -> float:
    """Return the least duration of a point; RequestError for less than the round asks of Offline's
    runs, by whose rules the points are judged.
    """
    least_s = serving_setup.require_scenario_rules(Scenario.OFFLINE).min_duration_ms / MS_PER_S
    if asked is not None and asked < least_s:
        raise RequestError(
            f"--seconds {asked:g}: Offline of profile {serving_setup.request.profile} lasts at"
            f" least {least_s:g} s"
        )
    return asked or least_s


def build_curve_study_path(serving_setup: ServingSetup) -> Path:
    """Return the folder of the study: one for each system."""
    name = convert_to_slug(
        f"{serving_setup.request.name}-{CURVE_KIND}-{serving_setup.entry.system}"
    )
    results = find_owning_results(serving_setup.request.options.results.absolute())
    return results / STUDIES_FOLDER / name


def build_curve_session(
    setups: Mapping[int, ServingSetup],
    threads: int,
    seconds: float,
    study_folder: Path,
) -> CurveSession:
    """Describe what is measured; a curve of another system, length or number of threads is moved
    aside.
    """
    first = next(iter(setups.values()))
    earlier = read_curve_study(study_folder)
    threads = resolve_thread_count(threads, SingleRank(), earlier.stamps.threads if earlier else 0)
    description = (
        describe_remote_system(first)
        if first.server_description
        else describe_system(first.entry, first.request.described)
    )
    resolved = {
        number: replace(each, description=description).copy_with_threads(threads)
        for number, each in setups.items()
    }
    stamps = build_speed_stamps(next(iter(resolved.values())))
    if study_folder.exists() and not (
        earlier and (earlier.stamps, earlier.seconds) == (stamps, seconds)
    ):
        move_to_superseded([study_folder], results=study_folder.parents[1])
    return CurveSession(
        setups=resolved,
        stamps=stamps,
        seconds=seconds,
        study_folder=study_folder,
    )


def measure_curve_points(session: CurveSession) -> ConcurrencyCurve:
    """Measure all points by rising concurrency; the table is saved after each."""
    earlier = read_curve_study(session.study_folder)
    points = {each.concurrency: each for each in (earlier.points if earlier else ())}
    asked = tuple(sorted({*(earlier.asked if earlier else ()), *session.setups}))
    subjects = {number: session.build_subject(number) for number in session.setups}
    missing = [number for number, each in subjects.items() if not is_curve_point_measured(each)]
    probe_result = None
    if missing:
        largest = session.setups[max(missing)]
        print_progress_note(f"{largest.request.name}: {CURVE_NOTE}")
        probe_result = probe_serving_speed(largest)
    study = write_curve_study(session, asked, points)
    for number, subject in subjects.items():
        if number in missing and probe_result is not None:
            run_valid_point(subject, probe_result)
        points[number] = read_curve_point(subject)
        click.echo(f"  {format_curve_line(points[number])}")
        study = write_curve_study(session, asked, points)
    return study


def write_curve_study(
    session: CurveSession, asked: Sequence[int], points: Mapping[int, CurvePoint]
) -> ConcurrencyCurve:
    """Write the table of the points so far."""
    regions = divide_into_regions(registry.load_endpoints_round(CURVE_ROUND), asked)
    record = next(iter(session.setups.values())).network
    made = ConcurrencyCurve(
        kind=CURVE_KIND,
        note=CURVE_NOTE,
        stamps=session.stamps,
        endpoints=record.endpoints if record else (),
        tokenizer_sha256=record.tokenizer if record else "",
        seconds=session.seconds,
        asked=tuple(asked),
        c_min=min(asked),
        c_max=max(asked),
        regions=regions,
        points=tuple(
            replace(points[number], region=find_curve_region(regions, number))
            for number in sorted(points)
        ),
        finished=set(points) == set(asked),
        machine=describe_study_machine(session.study_folder),
    )
    session.study_folder.mkdir(parents=True, exist_ok=True)
    write_json(session.study_folder / STUDY_FILE, msgspec.to_builtins(made))
    return made


def read_curve_study(study_folder: Path) -> ConcurrencyCurve | None:
    """Read a curve's table; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(study_folder / STUDY_FILE, CURVE_DECODER.decode)
    except UnreadableError:
        return None


def format_curve_line(point: CurvePoint) -> str:
    """Format a point in one line."""
    return (
        f"{point.concurrency} in flight: {point.system_tps:,.1f} tokens/s,"
        f" {point.tps_per_user:,.1f} per user, TTFT p90 {point.ttft_p90_ms:.2f} ms"
    )


def format_curve_table(study: ConcurrencyCurve) -> str:
    """Format the table, with what it is."""
    rows = [
        (
            str(each.concurrency),
            (each.region or "-").replace("_", " "),
            f"{each.system_tps:,.1f}",
            f"{each.tps_per_user:,.1f}",
            f"{each.ttft_p90_ms:.2f}",
            f"{each.tpot_p90_ms:.3f}",
            f"{each.in_flight_mean:.2f}",
            f"{each.duration_s:.1f}",
        )
        for each in study.points
    ]
    widths = [max(map(len, column)) for column in zip(CURVE_COLUMNS, *rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in (CURVE_COLUMNS, *rows)
    ]
    stamps = study.stamps
    heading = (
        f"{stamps.workload} ({stamps.profile}), {stamps.engine} {stamps.precision}: {study.note}"
    )
    return "\n".join((heading, *lines))
