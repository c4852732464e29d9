"""`podium sweep`: measures all points in a seeded random order, and prints and saves the table."""

import json
import random
import shutil
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.child_process import in_child
from harness.machine.power.selection import Chosen
from harness.machine.system_description import host_name
from harness.progress import Waiting
from harness.serving.infer import lasts_s
from harness.serving.loadgen.probe import LookJob, look
from harness.serving.loadgen.result_files import read_answers
from harness.serving.loadgen.session import Job, held
from harness.serving.loadgen.test_settings import plan
from harness.serving.setup import Bench
from harness.serving.sweep import tables
from harness.serving.sweep.idle import idle_in, measure_idle
from harness.serving.sweep.points import done, measured
from harness.serving.sweep.study_files import save
from harness.serving.sweep.subjects import Request, Swept, home, subjects
from suite import __version__, registry
from suite.cli import Options
from suite.errors import JudgedError
from suite.loadgen.scenario import Scenario
from suite.process.lock import exclusive
from suite.process.signals import raised
from suite.studies.documents import ACCURACY, NS_PER_S, POINT, STUDY, TRUTH, Drift, Row, Study, best_within, most_direct
from suite.workload import Mode, Scores

NO_MEMORY: Final = "memory does not suffice"
"""harness.engines.outputs: part of an engine's error for a batch that does not fit into memory."""
AGAIN: Final = "again"
"""Suffix of the folder of a repeated point."""


@dataclass(slots=True)
class Series:
    """The points of one subject in one engine and precision."""

    swept: Swept
    rows: dict[int, Row] = field(default_factory=dict)
    scores: Scores = field(default_factory=dict)

    @property
    def sample_ns(self) -> float | None:
        """Return the latency per sample at the largest batch measured so far."""
        known = {row.batch: row.samples_per_second for row in self.rows.values() if row.samples_per_second}
        return NS_PER_S / known[max(known)] if known else None


def sweep(request: Request, options: Options, form: str) -> None:
    """Measure, print and save; JudgedError if no point could be measured."""
    with raised(), exclusive(options.results.absolute()):
        every = [Series(swept) for swept in subjects(options, request)]
        with redirect_stdout(sys.stderr if form != "text" else sys.stdout):
            first = every[0].swept.subject
            homes = [home(options.results, name) for name in dict.fromkeys(series.swept.subject.identity.subject for series in every)]
            measure_idle(homes, first.power, first.identity.device)
            studies = [replace(study, idle=idle_in(home(options.results, study.subject))) for study in measure(every, request)]
    for study in studies:
        save(home(options.results, study.subject) / STUDY, study)
    show(studies, options, form)
    if not any(row.samples_per_second for study in studies for row in study.rows):
        raise JudgedError("no point could be measured")


def measure(every: Sequence[Series], request: Request) -> list[Study]:
    """Measure all points: first each series' smallest batch, to estimate the duration of the others; those follow in a seeded random order."""
    least = min(request.batches)
    for series in every:
        click.echo(told(point(series, least)))
    rest = [(series, batch) for series in every for batch in request.batches if batch != least]
    random.Random(request.seed).shuffle(rest)
    for series, batch in rest:
        click.echo(told(point(series, batch)))
    drifts = {id(series): drift for series in every if (drift := once_more(series, least))}
    for series in every:
        if any(row.samples_per_second for row in series.rows.values()):
            series.scores = accuracy(series.swept)
    names = list(dict.fromkeys(series.swept.subject.identity.subject for series in every))
    return [study_of(name, [each for each in every if each.swept.subject.identity.subject == name], drifts, request) for name in names]


def point(series: Series, batch: int) -> Row:
    """Measure a point; skip a batch larger than one that did not fit into memory."""
    subject = series.swept.subject
    full = [row for row in series.rows.values() if NO_MEMORY in row.why and row.batch < batch]
    if full:
        row = Row(engine=subject.identity.engine, precision=subject.identity.precision, batch=batch, folder="", why=f"not tried: {full[0].why}")
    else:
        row = measured(subject, batch, series.sample_ns)
    series.rows[batch] = row
    return row


def told(row: Row) -> str:
    """Format a point in one line."""
    rate = f"{row.samples_per_second:,.1f} samples/s, {(row.mean_latency_ns or 0) / 1e6:.2f} ms" if row.samples_per_second else row.why
    drawn = most_direct(row.energy)
    watts = f", {drawn.average_w:,.1f} W ({drawn.name}, grade {drawn.grade})" if drawn else ""
    return "\n".join([f"  {row.engine} {row.precision}, batch {row.batch}: {rate}{watts}", *(f"    no energy: {reason}" for reason in row.no_energy)])


def once_more(series: Series, batch: int) -> Drift | None:
    """Repeat a series' first point to measure the machine's drift."""
    first = series.rows[batch]
    if not first.samples_per_second:
        return None
    again = measured(series.swept.subject, batch, series.sample_ns, f"batch-{batch}-{AGAIN}")
    if not again.samples_per_second:
        return None
    change = again.samples_per_second / first.samples_per_second - 1
    return Drift(engine=first.engine, precision=first.precision, batch=batch, folder=again.folder, samples_per_second=again.samples_per_second, change=change)


def accuracy(swept: Swept) -> Scores:
    """Score a workload once in this engine and precision, unless its accuracy run exists; a bare network has no score."""
    if swept.bench is None:
        return {}
    identity = swept.subject.identity
    folder, truth = swept.subject.folder / ACCURACY, swept.subject.folder.parent / TRUTH
    if not (done(folder, identity, Chosen()) and any(truth.glob("*"))):
        answer_all(swept, swept.bench, folder, truth)
    return dict(registry.scorer(identity.subject)(dict(read_answers(folder)), truth))


def answer_all(swept: Swept, bench: Bench, folder: Path, truth: Path) -> None:
    """Do the accuracy run of a workload, and write its ground truth."""
    identity = swept.subject.identity
    shutil.rmtree(folder, ignore_errors=True)
    truth.mkdir(parents=True, exist_ok=True)
    seen = in_child(look, LookJob(system=bench.system, query_samples=1, truth=truth))
    schedule = plan(bench.request.round, bench.rules(Scenario.OFFLINE), Scenario.OFFLINE, Mode.ACCURACY, bench.request.settings, seen.probe, bench.log_seed)
    job = Job(system=bench.system, schedule=schedule, folder=folder)
    title = f"{identity.subject} {identity.engine} {identity.precision}, accuracy"
    with Waiting(title, lasts_s(schedule, seen.sample_count, seen.probe), about=True) as shown, held(job, shown.tick) as (made, _):
        save(made / POINT, identity)


def study_of(name: str, every: Sequence[Series], drifts: dict[int, Drift], request: Request) -> Study:
    """Build the study of one subject."""
    first = every[0].swept.subject.identity
    rows = tuple(finished(series, row) for series in every for _, row in sorted(series.rows.items()))
    return Study(
        kind="sweep",
        subject=name,
        bare=first.bare,
        weights=first.weights,
        profile=first.profile,
        system=host_name(first.device),
        device=first.device,
        threads=first.threads,
        seconds=request.seconds,
        seed=request.seed,
        within_ms=request.within_ms,
        rows=rows,
        drift=tuple(drifts[id(series)] for series in every if id(series) in drifts),
        best=best_within(rows, request.within_ms),
        version=__version__,
    )


def finished(series: Series, row: Row) -> Row:
    """Add the scores to a point."""
    if not row.samples_per_second or series.swept.bench is None:
        return row
    reference = series.swept.bench.checkpoint.record.reference_accuracy
    difference = {metric: value - reference[metric] for metric, value in series.scores.items() if metric in reference}
    return replace(row, scores=dict(series.scores), difference=difference)


def show(studies: Sequence[Study], options: Options, form: str) -> None:
    """Print in the requested form."""
    if form == "json":
        click.echo(json.dumps({"studies": msgspec.to_builtins(studies)}, indent=2))
    elif form == "csv":
        click.echo(tables.csv_of(studies), nl=False)
    else:
        click.echo("\n\n".join(tables.text_of(study) for study in studies))
        click.echo("\n" + "\n".join(f"saved in {home(options.results, study.subject)}" for study in studies))
