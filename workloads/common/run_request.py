"""Looks up a run's rows, engine plan and supported framework. Imports no framework."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from suite.dataset import DataSet
from suite.engine import Calibration, Plan
from suite.errors import RequestError, unknown
from suite.rounds import InferenceRow, TrainingRow
from suite.workload import Run
from workloads.common.inputs import ready
from workloads.common.setting_values import positive


def training_row(run: Run, name: str) -> TrainingRow:
    """Find the profile's row."""
    row = run.round.benchmark(name).training.get(run.profile)
    if row is None:
        raise RequestError(f"{name}: round {run.round.name} has no training in profile {run.profile}")
    return row


def inference_row(run: Run, name: str) -> InferenceRow:
    """Find the profile's row."""
    row = run.round.benchmark(name).inference.get(run.profile)
    if row is None:
        raise RequestError(f"{name}: round {run.round.name} has no inference in profile {run.profile}")
    return row


def found(run: Run, data_set: Callable[[Run], DataSet]) -> Mapping[str, Any]:
    """Give what was found in a run's data: what the run is told or, where it is told nothing, what a look of its own finds."""
    if run.found is not None:
        return run.found
    own = data_set(run)
    seen = own.survey().found
    own.check(seen)
    return seen


def plan(run: Run, calibration: Calibration[Any] | None = None) -> Plan[Any]:
    """Say how a run's networks are to be run; `calibration` is what a quantised network takes its ranges from."""
    options = {key: value for key, value in run.settings.items() if key.startswith("engine.")}
    most = positive(run.settings, "batching.max_batch")
    return Plan(
        device=run.device,
        precision=run.precision,
        threads=run.threads,
        max_batch=most,
        cache=run.cache / "engines",
        options=options,
        calibration=calibration,
    )


def warm_up_sizes(run: Run) -> range:
    """Give the batch sizes that a predictor answers before the clock: all, or the largest alone where no other comes (`batching.only_full`)."""
    most = positive(run.settings, "batching.max_batch")
    return range(most if run.settings.get("batching.only_full") else 1, most + 1)


def check_implemented(run: Run, name: str, frameworks: Collection[str] = ("torch",), inputs: Collection[str] = ("default",)) -> None:
    """Refuse frameworks and input pipelines that there is no code for, or that this machine lacks something for: RequestError, MissingError.

    Quietly taking another would be logged and not true.
    """
    for kind, found, known in (("framework", run.framework, frameworks), ("input", run.input, inputs)):
        if found not in known:
            raise unknown(f"{kind} of {name}", found, known)
    ready(run)
