"""`podium sweep`: measures all points in a seeded random order, and prints and saves the table."""

import json
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.children.process import run_in_child
from harness.machine.power.chosen import ChosenPower
from harness.progress import WaitProgress
from harness.request import check_request_folders
from harness.serving.loadgen.probe import ProbeJob, run_probe_job
from harness.serving.loadgen.session import LoadGenJob, run_loadgen_in_child
from harness.serving.loadgen.test_settings import build_loadgen_schedule, estimate_answering_s
from harness.serving.sweep import tables
from harness.serving.sweep.engines import settle_sweep_engines
from harness.serving.sweep.idle import measure_idle_power
from harness.serving.sweep.points import NO_MEMORY_PHRASE, is_point_measured, measure_sweep_point
from harness.serving.sweep.sheet import SweepSeries, SweepTable, begin_sweep_tables
from harness.serving.sweep.study_files import write_sweep_document
from harness.serving.sweep.subjects import (
    SubjectScoring,
    SweepOptions,
    SweptSubject,
    build_study_path,
    set_up_sweep_subjects,
    settle_sweep_threads,
)
from suite import registry
from suite.cli import RunOptions
from suite.errors import JudgedError
from suite.loadgen.logged_answers import read_logged_answers
from suite.loadgen.scenario import Scenario
from suite.process.lock import lock_results_folder
from suite.process.signals import raise_signals_in_block
from suite.studies.documents import (
    POINT_FILE,
    SAMPLES_LIST_FILE,
    STUDY_ACCURACY_FOLDER,
    STUDY_TRUTH_FOLDER,
    RateDrift,
    Study,
    StudyRow,
    select_shown_energy,
)
from suite.workload import Mode, Scores

REPEATED_POINT_SUFFIX: Final = "again"
"""Suffix of the folder of a repeated point."""


def run_sweep(request: SweepOptions, options: RunOptions, output_format: str) -> None:
    """Measure, print and save; JudgedError if no point could be measured."""
    with (
        raise_signals_in_block(),
        lock_results_folder(options.results.absolute()),
        redirect_stdout(sys.stderr if output_format != "text" else sys.stdout),
    ):
        check_request_folders(options)
        options = settle_sweep_threads(options, request)
        request = settle_sweep_engines(options, request)
        every = [SweepSeries(swept) for swept in set_up_sweep_subjects(options, request)]
        sweep_tables = begin_sweep_tables(every, request, options.results)
        measure_idle_power(
            [sheet.study_folder for sheet in sweep_tables],
            every[0].swept.subject.power,
            every[0].identity.device,
        )
        studies = measure_sweep(sweep_tables, every)
    print_studies(studies, options, output_format)
    if not any(row.samples_per_second for study in studies for row in study.rows):
        raise JudgedError("no point could be measured")


def measure_sweep(sweep_tables: Sequence[SweepTable], every: Sequence[SweepSeries]) -> list[Study]:
    """Measure all points in the order drawn, the first of each series once more, and the scores;
    the table is saved after each.
    """
    sheet_of = {id(series): sheet for sheet in sweep_tables for series in sheet.series}
    points = {
        f"{series.label} {batch}": (series, batch)
        for series in every
        for batch in sweep_tables[0].request.batches
    }
    for series, batch in (points[label] for label in sweep_tables[0].command.order):
        click.echo(format_point_line(measure_fitting_point(series, batch)))
        sheet_of[id(series)].write_study()
    least = min(sweep_tables[0].request.batches)
    whole = {id(series): repeat_first_point(series, least) for series in every}
    for series in every:
        if series.sample_ns is not None:
            series.scores = score_sweep_subject(series.swept)
        sheet_of[id(series)].write_study()
    return [
        sheet.write_study(finished=all(whole[id(series)] for series in sheet.series))
        for sheet in sweep_tables
    ]


def measure_fitting_point(series: SweepSeries, batch: int) -> StudyRow:
    """Measure a point; skip a batch larger than one that did not fit into memory."""
    subject = series.swept.subject
    full = [
        row for row in series.rows.values() if NO_MEMORY_PHRASE in row.why and row.batch < batch
    ]
    if full:
        row = StudyRow(
            engine=subject.identity.engine,
            precision=subject.identity.precision,
            batch=batch,
            folder="",
            why=f"not tried: {full[0].why}",
        )
    else:
        row = measure_sweep_point(subject, batch, series.sample_ns)
    series.rows[batch] = row
    return row


def format_point_line(row: StudyRow) -> str:
    """Format a point in one line."""
    rate = (
        f"{row.samples_per_second:,.1f} samples/s, {(row.mean_latency_ns or 0) / 1e6:.2f} ms"
        if row.samples_per_second
        else row.why
    )
    drawn = select_shown_energy(row.energy)
    watts = f", {drawn.average_w:,.1f} W ({drawn.name}, {drawn.grade_description})" if drawn else ""
    return "\n".join(
        [
            f"  {row.engine} {row.precision}, batch {row.batch}: {rate}{watts}",
            *(f"    no energy: {reason}" for reason in row.no_energy),
        ]
    )


def repeat_first_point(series: SweepSeries, batch: int) -> bool:
    """Repeat a series' first point to measure the machine's drift; false if it was measured once
    and cannot be measured again.
    """
    first = series.rows[batch]
    if not first.samples_per_second:
        return True
    again = measure_sweep_point(
        series.swept.subject, batch, series.sample_ns, f"batch-{batch}-{REPEATED_POINT_SUFFIX}"
    )
    if not again.samples_per_second:
        return False
    change = again.samples_per_second / first.samples_per_second - 1
    rate = again.samples_per_second
    series.drift = RateDrift(
        engine=first.engine,
        precision=first.precision,
        batch=batch,
        folder=again.folder,
        samples_per_second=rate,
        change=change,
    )
    return True


def score_sweep_subject(swept: SweptSubject) -> Scores:
    """Score a subject once in this engine and precision, unless its accuracy run exists; a bare
    network has no score without labelled data.
    """
    identity = swept.subject.identity
    folder, truth = (
        swept.subject.folder / STUDY_ACCURACY_FOLDER,
        swept.subject.folder.parent / STUDY_TRUTH_FOLDER,
    )
    if not (is_point_measured(folder, identity, ChosenPower()) and any(truth.glob("*"))):
        if swept.scoring is None:
            return {}
        run_sweep_accuracy(swept, swept.scoring, folder, truth)
    return dict(registry.load_scorer(identity.subject)(dict(read_logged_answers(folder)), truth))


def run_sweep_accuracy(
    swept: SweptSubject, scoring: SubjectScoring, folder: Path, truth: Path
) -> None:
    """Do the accuracy run of a subject, and write its ground truth."""
    identity, run = swept.subject.identity, scoring.system.run
    shutil.rmtree(folder, ignore_errors=True)
    truth.mkdir(parents=True, exist_ok=True)
    probe_result = run_in_child(
        run_probe_job, ProbeJob(system=scoring.system, query_samples=1, truth=truth)
    )
    if scoring.samples:
        (truth / SAMPLES_LIST_FILE).write_text(scoring.samples, "utf-8")
    schedule = build_loadgen_schedule(
        run.round,
        scoring.rules,
        Scenario.OFFLINE,
        Mode.ACCURACY,
        run.settings,
        probe_result.probe,
        swept.subject.log_seed,
    )
    job = LoadGenJob(system=scoring.system, schedule=schedule, folder=folder)
    title = f"{identity.subject} {identity.engine} {identity.precision}, accuracy"
    with (
        WaitProgress(
            title,
            estimate_answering_s(schedule, probe_result.sample_count, probe_result.probe),
            about=True,
        ) as shown,
        run_loadgen_in_child(job, shown.show_elapsed) as (made, _),
    ):
        write_sweep_document(made / POINT_FILE, identity)


def print_studies(studies: Sequence[Study], options: RunOptions, output_format: str) -> None:
    """Print in the requested form."""
    if output_format == "json":
        click.echo(json.dumps({"studies": msgspec.to_builtins(studies)}, indent=2))
    elif output_format == "csv":
        click.echo(tables.format_sweep_csv(studies), nl=False)
    else:
        click.echo("\n\n".join(tables.format_sweep_text(study) for study in studies))
        click.echo(
            "\n"
            + "\n".join(
                f"saved in {build_study_path(options.results, study.subject)}" for study in studies
            )
        )
