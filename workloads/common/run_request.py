"""Looks up a run's rows, engine plan and supported framework. Imports no framework."""

from collections.abc import Callable, Collection, Mapping
from importlib.util import find_spec
from typing import Any, Final

from suite import registry
from suite.dataset import DataSet
from suite.engine import Calibration, Plan, Shape, ShapeProfile
from suite.errors import MissingError, RequestError, build_unknown_name_error
from suite.files.cache import ENGINE_CACHE_FOLDER
from suite.process.installation import RUN_EXTRA, format_install_command
from suite.rounds import InferenceRow, TrainingRow
from suite.terms import QUANTISED
from suite.workload import Run
from workloads.common.inputs import require_input_pipeline
from workloads.common.setting_values import require_positive_setting

DEFAULT_INPUT: Final = "default"
TYPICAL_BATCH: Final = 8
"""Samples; between the smallest and the largest, for engines that need a typical example."""


def require_run_training_row(run: Run, name: str) -> TrainingRow:
    """Return the training row of the run's profile."""
    row = run.round.benchmark(name).training.get(run.profile)
    if row is None:
        raise RequestError(
            f"{name}: round {run.round.name} has no training in profile {run.profile}"
        )
    return row


def require_run_inference_row(run: Run, name: str) -> InferenceRow:
    """Return the inference row of the run's profile."""
    row = run.round.benchmark(name).inference.get(run.profile)
    if row is None:
        raise RequestError(
            f"{name}: round {run.round.name} has no inference in profile {run.profile}"
        )
    return row


def resolve_data_survey(run: Run, data_set: Callable[[Run], DataSet]) -> Mapping[str, Any]:
    """Return the survey of a run's data: the one given to the run, else a new one."""
    if run.found is not None:
        return run.found
    survey_source = data_set(run)
    surveyed = survey_source.survey().found
    survey_source.check(surveyed)
    return surveyed


def require_max_batch(run: Run) -> int:
    """Return the largest batch that a run's networks are given."""
    return require_positive_setting(run.settings, "batching.max_batch")


def build_engine_plan(
    run: Run, build_calibration: Callable[[], Calibration[Any]] | None = None
) -> Plan[Any]:
    """Return the engine plan of a run's networks; `build_calibration` supplies the ranges of
    networks that the run's precision quantises.
    """
    options = {key: value for key, value in run.settings.items() if key.startswith("engine.")}
    calibration = None
    if build_calibration and run.precision in QUANTISED:
        calibration = build_calibration()
    return Plan(
        device=run.device,
        precision=run.precision,
        threads=run.threads,
        max_batch=require_max_batch(run),
        cache=run.engine_cache or run.cache / ENGINE_CACHE_FOLDER,
        options=options,
        calibration=calibration,
    )


def build_batch_shapes(sample: Shape, most: int, usual: int = TYPICAL_BATCH) -> ShapeProfile:
    """Return the shapes of batches of one sample, of a typical number, and of the most."""
    one, common, largest = ((size, *sample) for size in (1, min(usual, most), most))
    return ShapeProfile(minimum=(one,), usual=(common,), maximum=(largest,))


def list_warm_up_batch_sizes(run: Run, most: int) -> range:
    """Return the batch sizes to warm up before the clock starts: all, or only the largest if no
    other occurs (`batching.only_full`).
    """
    return range(most if run.settings.get("batching.only_full") else 1, most + 1)


def check_run_without_input(name: str, run: Run) -> None:
    """Check a run of a workload that reads its data without an input pipeline."""
    check_run_input(name, run, (DEFAULT_INPUT,))


def check_run_with_input(name: str, run: Run) -> None:
    """Check a run of a workload that reads its data through any input pipeline."""
    check_run_input(name, run, registry.map_entry_points(registry.INPUT_GROUP))


def check_run_input(name: str, run: Run, inputs: Collection[str]) -> None:
    """RequestError for an input pipeline that is not implemented, since silently using another
    would make the log untrue; MissingError if this machine lacks something for the pipeline or the
    framework.
    """
    if run.input not in inputs:
        raise build_unknown_name_error(f"input of {name}", run.input, inputs)
    require_input_pipeline(run)
    if find_spec(run.framework) is None:
        extra = RUN_EXTRA if run.framework == "torch" else run.framework
        raise MissingError(
            f"{name}: {run.framework} is not installed: {format_install_command(extra)}"
        )
