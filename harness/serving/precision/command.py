"""`podium precision`: accuracy and speed of every engine and precision, as a study.

Every row is served as `podium infer` serves it: Offline and SingleStream, the accuracy set once.
The runs are in a results folder of the study's own, `studies/<workload>-precision`, so results stay
as they are; a run that exists already, there or in the results, is not made again.
"""

import os
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.machine import cpus
from harness.progress import format_rough_duration
from harness.request import RunRequest, resolve_request
from harness.serving.checkpoint_selection import ExportedCheckpoint, choose_checkpoint
from harness.serving.infer import serve_plan
from harness.serving.precision.combinations import (
    filter_runnable_combinations,
    iterate_combinations,
)
from harness.serving.precision.existing_runs import (
    copy_earlier_runs,
    is_below_limits,
    list_minimum_limits,
    list_missing_runs,
    locate_row_run,
    read_row_threads,
    select_system_settings,
)
from harness.serving.precision.table import print_precision_table
from harness.serving.run_record import find_served_run
from harness.serving.setup import ServingSetup, set_up_serving
from suite import __version__, registry
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import JudgedError, MissingError, PodiumError, RequestError
from suite.files.json_files import write_json
from suite.files.superseded import move_to_superseded
from suite.files.untrusted_files import UnreadableError, read_untrusted_file
from suite.loadgen.detail_log import read_detail_log
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.process.lock import lock_results_folder
from suite.process.signals import Interrupted, raise_signals_in_block
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE
from suite.studies.precision import (
    OFFLINE_RATE_KEY,
    OFFLINE_TOKENS_KEY,
    PRECISION_KIND,
    PRECISION_SCENARIOS,
    PrecisionRow,
    PrecisionStudy,
    compare_with_fp32,
    read_latency_cells,
)
from suite.terms import Precision
from suite.units import MS_PER_S
from suite.workload import Mode, Scores

PRECISION_STUDY_DECODER: Final = msgspec.json.Decoder(PrecisionStudy)
PREPARATION_S: Final = 15.0
"""Roughly what a system takes besides its performance runs: its probe, the accuracy run and the
starts of processes, of the smallest workloads on two cores.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSystem:
    """One engine and precision that the table will have a row of."""

    engine: str
    precision: Precision
    serving_setup: ServingSetup | None = None
    """None: it cannot be set up."""
    why: str = ""
    """Why it cannot."""

    @property
    def is_measured(self) -> bool:
        """Return whether nothing is left to do: all runs exist, or it cannot be served."""
        return self.serving_setup is None or not list_missing_runs(self.serving_setup)

    @property
    def least_s(self) -> float:
        """Return roughly how long its missing runs take at least, in s."""
        if self.serving_setup is None or self.is_measured:
            return 0.0
        settings = self.serving_setup.request.settings
        return PREPARATION_S + sum(
            float(
                str(
                    settings.get(
                        "loadgen.min_duration_ms",
                        self.serving_setup.require_scenario_rules(scenario).min_duration_ms,
                    )
                )
            )
            / MS_PER_S
            for scenario, modes in list_missing_runs(self.serving_setup).items()
            if Mode.PERFORMANCE in modes
        )


def compare_precisions(
    workload: str,
    options: RunOptions,
    *,
    engine: str | None,
    checkpoint: Path | None,
    output_format: str,
) -> None:
    """Measure every combination that this machine can run, print and save the table; JudgedError if
    a row is not compliant.
    """
    request = add_precision_settings(resolve_request(options, workload))
    chosen = choose_checkpoint(request, checkpoint)
    wanted = filter_runnable_combinations(request, list(iterate_combinations(request, engine)))
    if not wanted:
        raise MissingError(
            f"{workload}: no engine on this machine supports the request; podium doctor {workload}"
            " says why"
        )
    study_folder = build_precision_study_path(options.results, workload)
    try:
        with (
            raise_signals_in_block(),
            lock_results_folder(options.results.absolute()),
            redirect_stdout(sys.stderr if output_format == "json" else sys.stdout),
        ):
            threads = options.threads or choose_row_threads(request, chosen, wanted, study_folder)
            request = replace(request, options=replace(request.options, threads=threads))
            study = begin_precision_study(request, chosen, wanted, study_folder)
            systems = [set_up_row_system(request, chosen, *pair, study_folder) for pair in wanted]
            study = measure_systems(systems, study, study_folder)
    except Interrupted as error:
        command = shlex.join(("podium", *sys.argv[1:]))
        raise type(error)(
            f"{workload}: {error}; what was measured is kept; continue with: {command}"
        ) from error
    print_precision_table(study, study_folder, output_format)
    own = [row for row in study.rows if (row.engine, row.precision) in wanted]
    if bad := [f"{row.engine} {row.precision}: {row.why}" for row in own if not row.compliant]:
        raise JudgedError("; ".join(bad))


def build_precision_study_path(results: Path, workload: str) -> Path:
    """Return the folder of the study, which is a results folder of its own."""
    return results / STUDIES_FOLDER / f"{workload}-{PRECISION_KIND}"


def add_precision_settings(request: RunRequest) -> RunRequest:
    """Add the row's settings for this table; the user's own take precedence."""
    added = tuple(f"{key}={value}" for key, value in request.row.precision_settings.items())
    return (
        resolve_request(
            replace(request.options, assignments=(*added, *request.options.assignments)),
            request.name,
        )
        if added
        else request
    )


def choose_row_threads(
    request: RunRequest,
    checkpoint: ExportedCheckpoint,
    wanted: Sequence[tuple[str, Precision]],
    study_folder: Path,
) -> int:
    """Return the CPU threads of all rows: those that the study or the checkpoint's results have,
    since runs with others would have to be made again; else the idle cores.
    """
    row, sha256 = request.row.inference[request.profile], checkpoint.record.sha256
    study = read_precision_study(study_folder)
    begun = study.threads if study and study.checkpoint_sha256 == sha256 else 0
    entries = (request.build_entry(row.division, *pair) for pair in wanted)
    threads = begun or read_row_threads(entries, request.row.inference_name, sha256)
    return (
        threads
        if 0 < threads <= len(os.sched_getaffinity(0))
        else cpus.choose_core_count(cpus.measure_busy_share())
    )


def read_precision_study(study_folder: Path) -> PrecisionStudy | None:
    """Read a study's table; None if it is missing or unreadable."""
    try:
        return read_untrusted_file(study_folder / STUDY_FILE, PRECISION_STUDY_DECODER.decode)
    except UnreadableError:
        return None


def begin_precision_study(
    request: RunRequest,
    checkpoint: ExportedCheckpoint,
    wanted: Sequence[tuple[str, Precision]],
    study_folder: Path,
) -> PrecisionStudy:
    """Return the study with the rows of an earlier command that this one does not measure. A study
    of other weights, settings or another machine is moved aside.
    """
    begun = PrecisionStudy(
        kind=PRECISION_KIND,
        workload=request.name,
        profile=request.profile.value,
        checkpoint_sha256=checkpoint.record.sha256,
        reference=dict(checkpoint.record.reference_accuracy),
        device=request.device,
        threads=request.options.threads,
        settings=select_system_settings(request.settings),
        version=__version__,
        finished=False,
        rows=(),
    )
    earlier = read_precision_study(study_folder)
    if earlier is None or replace(earlier, finished=False, rows=()) != begun:
        move_to_superseded([study_folder.absolute()], results=request.options.results.absolute())
        return begun
    kept = tuple(row for row in earlier.rows if (row.engine, row.precision) not in wanted)
    if kept:
        click.echo(
            "kept from an earlier comparison:"
            f" {', '.join(f'{row.engine} {row.precision}' for row in kept)}"
        )
    return replace(begun, rows=kept)


def set_up_row_system(
    request: RunRequest,
    checkpoint: ExportedCheckpoint,
    engine: str,
    precision: Precision,
    study_folder: Path,
) -> ComparedSystem:
    """Set up one combination, and take its runs from the results if they are there."""
    own = request.options.system
    options = replace(
        request.options,
        engine=engine,
        precision=precision,
        system=f"{own}-{engine}-{precision}" if own else None,
        results=study_folder,
    )
    try:
        serving_setup = set_up_serving(request.name, options, checkpoint.folder)
    except (RequestError, MissingError) as error:
        return ComparedSystem(engine=engine, precision=precision, why=str(error))
    if copy_earlier_runs(serving_setup, request.options.results):
        print_progress_note(f"{engine} {precision}: takes the runs in {request.options.results}")
    return ComparedSystem(engine=engine, precision=precision, serving_setup=serving_setup)


def measure_systems(
    systems: Sequence[ComparedSystem], begun: PrecisionStudy, study_folder: Path
) -> PrecisionStudy:
    """Measure what is missing and read all rows; the table is saved after each."""
    print_progress_note(f"{begun.workload}: {describe_remaining_work(systems)}")
    study = save_precision_study(begun, study_folder)
    rows: list[PrecisionRow] = []
    for number, each in enumerate(systems, 1):
        began_s, least_s = time.monotonic(), each.least_s
        rows.append(measure_row(each))
        study = save_precision_study(replace(begun, rows=(*rows, *begun.rows)), study_folder)
        if least_s and any(other.least_s for other in systems[number:]):
            slower = (time.monotonic() - began_s) / least_s
            print_progress_note(f"next: {describe_remaining_work(systems[number:], slower)}")
    return save_precision_study(replace(study, finished=True), study_folder)


def describe_remaining_work(systems: Sequence[ComparedSystem], slower: float = 1.0) -> str:
    """Say how many systems the table will have and how long they take; `slower` corrects the
    estimate by what a measured one took.
    """
    count = f"{len(systems)} system{'s' if len(systems) != 1 else ''}"
    done = sum(each.is_measured for each in systems)
    if done == len(systems):
        return f"{count}, nothing left to measure"
    known = f", {done} of them measured already" if done else ""
    least_s = sum(each.least_s for each in systems)
    return f"{count}{known}, about {format_rough_duration(slower * least_s)}"


def save_precision_study(study: PrecisionStudy, study_folder: Path) -> PrecisionStudy:
    """Compare the rows, write the table and return it."""
    study = replace(study, rows=compare_with_fp32(study.rows, study.reference))
    write_json(study_folder / STUDY_FILE, msgspec.to_builtins(study))
    return study


def measure_row(compared: ComparedSystem) -> PrecisionRow:
    """Serve one combination, unless its runs exist, and read the results; a refusal becomes a row
    too.
    """
    click.echo(f"{compared.engine} {compared.precision}")
    if compared.serving_setup is None:
        return build_refused_row(compared, compared.why)
    problems: Sequence[str] = ()
    try:
        if plan := list_missing_runs(compared.serving_setup):
            problems = serve_plan(compared.serving_setup, plan)
        if list_missing_runs(compared.serving_setup):
            return build_refused_row(compared, "; ".join(problems))
        return read_precision_row(compared.serving_setup)
    except PodiumError as error:
        return build_refused_row(compared, str(error))


def build_refused_row(compared: ComparedSystem, why: str) -> PrecisionRow:
    """Build the row of a combination that could not be served."""
    return PrecisionRow(
        engine=compared.engine,
        precision=compared.precision.value,
        system="",
        scores={},
        difference={},
        samples_per_second=None,
        latency_ns={},
        speed_up=None,
        compliant=False,
        why=why,
    )


def read_precision_row(serving_setup: ServingSetup) -> PrecisionRow:
    """Read scores, rate and latencies from LoadGen's files."""
    accuracy, offline, single = (
        locate_row_run(serving_setup.entry, serving_setup, scenario, mode)
        for scenario, mode in (
            (Scenario.OFFLINE, Mode.ACCURACY),
            (Scenario.OFFLINE, Mode.PERFORMANCE),
            (Scenario.SINGLE_STREAM, Mode.PERFORMANCE),
        )
    )
    scores = score_row_answers(serving_setup, accuracy)
    reasons = list(find_noncompliance(serving_setup, scores))
    results = serving_setup.entry.results
    return PrecisionRow(
        engine=serving_setup.request.engine,
        precision=serving_setup.precision.value,
        system=serving_setup.entry.system,
        accuracy=accuracy.relative_to(results).as_posix(),
        offline=offline.relative_to(results).as_posix(),
        single_stream=single.relative_to(results).as_posix(),
        scores=dict(scores),
        difference={},
        samples_per_second=read_detail_log(offline).require_number(OFFLINE_RATE_KEY),
        tokens_per_second=read_detail_log(offline).find_number(OFFLINE_TOKENS_KEY),
        latency_ns=read_latency_cells(read_detail_log(single).require_number),
        speed_up=None,
        compliant=not reasons,
        why="; ".join(reasons),
    )


def score_row_answers(serving_setup: ServingSetup, accuracy: Path) -> Scores:
    """Score the accuracy run."""
    return registry.load_scorer(serving_setup.request.name)(
        dict(read_logged_answers(accuracy)),
        serving_setup.entry.locate_ground_truth(serving_setup.request.name),
    )


def find_noncompliance(serving_setup: ServingSetup, scores: Scores) -> Iterator[str]:
    """Yield why the runs of a row are not a valid result."""
    accuracy = locate_row_run(serving_setup.entry, serving_setup, Scenario.OFFLINE, Mode.ACCURACY)
    yield from (
        f"accuracy: {sentence}" for sentence in serving_setup.score_limits.list_shortfalls(scores)
    )
    yield from (f"accuracy: void; LoadGen: {error}" for error in read_detail_log(accuracy).errors)
    for scenario in PRECISION_SCENARIOS:
        folder = locate_row_run(serving_setup.entry, serving_setup, scenario, Mode.PERFORMANCE)
        log = read_detail_log(folder)
        if not log.is_valid:
            yield f"{scenario.label} performance is INVALID"
        if is_below_limits(
            find_served_run(folder),
            list_minimum_limits(serving_setup.require_scenario_rules(scenario)),
        ):
            yield f"{scenario.label} performance is shorter than the round requires"
