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

from harness.serving.automatic_engine import settle_engine
from harness.serving.infer import serve_scenarios
from harness.serving.run_record import read_run_record
from harness.serving.setup import ServingSetup, set_up_serving
from harness.serving.study_machine import describe_study_machine
from harness.serving.weights.initial import export_random_weights
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

RANDOM_CHOICE: Final = "random"


def measure_weights_speed(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    weights: str,
    runs: int | None,
) -> None:
    """Measure the speed of weights without asking for accuracy; the runs are in a study of their
    own. JudgedError if one is INVALID.
    """
    options = replace(
        options, results=options.results / STUDIES_FOLDER / f"{workload}-{SPEED_KIND}"
    )
    folder = (
        export_random_weights(workload, options)
        if weights == RANDOM_CHOICE
        else require_checkpoint_folder(weights)
    )
    serving_setup = set_up_serving(workload, settle_engine(workload, options, folder), folder)
    click.echo(
        f"{workload}: {NOT_SUBMITTABLE}"
        f" ({serving_setup.checkpoint.record.origin or 'a trained checkpoint'})"
    )
    try:
        serve_scenarios(
            replace(serving_setup, requested_runs=runs),
            scenarios=scenarios,
            mode=Mode.PERFORMANCE,
        )
    finally:
        with suppress(OSError):
            write_speed_study(serving_setup)


def require_checkpoint_folder(weights: str) -> Path:
    """Return the folder of a checkpoint; RequestError if there is none."""
    folder = Path(weights)
    if not folder.is_dir():
        raise RequestError(
            f"--weights {weights}: neither '{RANDOM_CHOICE}' nor a folder of exported weights;"
            " podium import makes one from a file"
        )
    return folder


def write_speed_study(serving_setup: ServingSetup) -> None:
    """Write the table of all runs of this checkpoint; nothing where no run ended."""
    found = sorted(
        iterate_speed_runs(serving_setup),
        key=lambda pair: (pair[0] / RUN_RECORD).stat().st_mtime_ns,
    )
    if found:
        threads = found[-1][
            1
        ].threads  # of the newest; runs with other threads are of another system
        rows = tuple(
            build_speed_row(folder.relative_to(serving_setup.entry.results), run)
            for folder, run in found
            if run.threads == threads
        )
        study = SpeedStudy(
            kind=SPEED_KIND,
            note=NOT_SUBMITTABLE,
            stamps=replace(build_speed_stamps(serving_setup), threads=threads),
            rows=rows,
            machine=describe_study_machine(serving_setup.entry.results),
        )
        write_json(serving_setup.entry.results / STUDY_FILE, msgspec.to_builtins(study))


def iterate_speed_runs(serving_setup: ServingSetup) -> Iterator[tuple[Path, RunRecord]]:
    """Yield the performance runs of this system and checkpoint that stand in the study."""
    sha256 = serving_setup.checkpoint.record.sha256
    for path in serving_setup.entry.locate_benchmark(serving_setup.request.row.inference_name).glob(
        f"*/performance/*/{RUN_RECORD}"
    ):
        run = read_run_record(path.parent)
        if run is not None and run.checkpoint_sha256 == sha256:
            yield path.parent, run


def build_speed_row(folder: Path, run: RunRecord) -> SpeedRow:
    """Read one run's row from its record."""
    return SpeedRow(
        scenario=run.scenario,
        folder=folder.as_posix(),
        verdict=run.verdict,
        metric=run.metric,
        value=run.value,
    )


def build_speed_stamps(serving_setup: ServingSetup) -> StudyStamps:
    """Describe what is measured."""
    run = serving_setup.system.run
    return StudyStamps(
        workload=serving_setup.request.name,
        profile=run.profile.value,
        checkpoint_sha256=serving_setup.checkpoint.record.sha256,
        origin=serving_setup.checkpoint.record.origin,
        engine=serving_setup.request.engine,
        precision=serving_setup.precision.value,
        framework=run.framework,
        device=serving_setup.device,
        threads=serving_setup.threads,
        system=serving_setup.entry.system,
        version=__version__,
    )
