"""`podium infer --weights`: speed alone, of random weights or of any checkpoint, as a study."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from harness.serving.studies.driver import measure_study
from harness.serving.studies.system import StudyOptions
from harness.serving.weights.initial import export_random_weights
from suite.cli import RunOptions
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario
from suite.studies.speed import SPEED_KIND

RANDOM_CHOICE: Final = "random"


def measure_weights_speed(
    workload: str,
    options: RunOptions,
    *,
    scenarios: Sequence[Scenario],
    weights: str,
    runs: int | None,
) -> None:
    """Measure the speed of weights without asking for accuracy. JudgedError if a run is INVALID."""
    if weights == RANDOM_CHOICE:
        folder = export_random_weights(workload, options)
    else:
        folder = require_checkpoint_folder(weights)
    study_options = StudyOptions(
        values={"scenarios": scenarios, "bound_ns": None}, checkpoint=folder, repeats=runs or 1
    )
    measure_study(SPEED_KIND, workload, options, study_options)


def require_checkpoint_folder(weights: str) -> Path:
    """Return the folder of a checkpoint; RequestError if there is none."""
    folder = Path(weights)
    if not folder.is_dir():
        raise RequestError(
            f"--weights {weights}: neither '{RANDOM_CHOICE}' nor a folder of exported weights;"
            " podium import makes one from a file"
        )
    return folder
