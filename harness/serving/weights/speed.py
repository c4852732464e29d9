"""`podium infer --weights`: speed alone, of random weights or of any checkpoint, as a study outside
the submission tree.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.serving.infer import serve
from harness.serving.run_record import record_in
from harness.serving.setup import Bench, set_up
from harness.serving.weights.initial import random_weights
from suite import __version__
from suite.cli import RunOptions
from suite.errors import RequestError
from suite.files.json_files import write_json
from suite.files.layout import RUN_RECORD
from suite.loadgen.scenario import Scenario
from suite.records import RunRecord
from suite.studies.documents import STUDIES_FOLDER, STUDY_FILE
from suite.studies.rates import NOT_SUBMITTABLE, SPEED_KIND, SpeedRow, SpeedStudy, StudyStamps
from suite.workload import Mode

RANDOM: Final = "random"


def serve_speed(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    weights: str,
    runs: int | None,
) -> None:
    """Measure the speed of weights without asking for accuracy; the runs lie in a study of their
    own. JudgedError if one is INVALID.
    """
    options = replace(
        options, results=options.results / STUDIES_FOLDER / f"{workload}-{SPEED_KIND}"
    )
    folder = random_weights(workload, options) if weights == RANDOM else checkpoint_named(weights)
    bench = set_up(workload, options, folder)
    click.echo(
        f"{workload}: {NOT_SUBMITTABLE}"
        f" ({bench.checkpoint.record.origin or 'a trained checkpoint'})"
    )
    try:
        serve(
            workload,
            options,
            scenarios=scenarios,
            mode=Mode.PERFORMANCE,
            checkpoint=folder,
            runs=runs,
        )
    finally:
        with suppress(OSError):
            write_study(bench)


def checkpoint_named(weights: str) -> Path:
    """Return the folder of a checkpoint; RequestError if there is none."""
    folder = Path(weights)
    if not folder.is_dir():
        raise RequestError(
            f"--weights {weights}: neither '{RANDOM}' nor a folder of exported weights; podium"
            " import makes one from a file"
        )
    return folder


def write_study(bench: Bench) -> None:
    """Write the table of all runs of this checkpoint; nothing where no run ended."""
    found = sorted(runs_of(bench), key=lambda pair: (pair[0] / RUN_RECORD).stat().st_mtime_ns)
    if found:
        threads = found[-1][
            1
        ].threads  # of the newest; runs with other threads are of another system
        rows = tuple(
            row_of(folder.relative_to(bench.entry.results), run)
            for folder, run in found
            if run.threads == threads
        )
        study = SpeedStudy(
            kind=SPEED_KIND,
            note=NOT_SUBMITTABLE,
            stamps=replace(stamps_of(bench), threads=threads),
            rows=rows,
        )
        write_json(bench.entry.results / STUDY_FILE, msgspec.to_builtins(study))


def runs_of(bench: Bench) -> Iterator[tuple[Path, RunRecord]]:
    """Yield the performance runs of this system and checkpoint that stand in the study."""
    sha256 = bench.checkpoint.record.sha256
    for path in bench.entry.locate_benchmark(bench.request.row.inference_name).glob(
        f"*/performance/*/{RUN_RECORD}"
    ):
        run = record_in(path.parent)
        if run is not None and run.checkpoint_sha256 == sha256:
            yield path.parent, run


def row_of(folder: Path, run: RunRecord) -> SpeedRow:
    """Read one run's row from its record."""
    return SpeedRow(
        scenario=run.scenario,
        folder=folder.as_posix(),
        verdict=run.verdict,
        metric=run.metric,
        value=run.value,
    )


def stamps_of(bench: Bench) -> StudyStamps:
    """Describe what is measured."""
    run = bench.system.run
    return StudyStamps(
        workload=bench.request.name,
        profile=run.profile.value,
        checkpoint_sha256=bench.checkpoint.record.sha256,
        origin=bench.checkpoint.record.origin,
        engine=bench.request.options.engine,
        precision=bench.precision.value,
        framework=run.framework,
        device=bench.device,
        threads=bench.threads,
        system=bench.entry.system,
        version=__version__,
    )
