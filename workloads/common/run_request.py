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
    """Return the training row of the run's profile."""
    row = run.round.benchmark(name).training.get(run.profile)
    if row is None:
        raise RequestError(
            f"{name}: round {run.round.name} has no training in profile {run.profile}"
        )
    return row


def inference_row(run: Run, name: str) -> InferenceRow:
    """Return the inference row of the run's profile."""
    row = run.round.benchmark(name).inference.get(run.profile)
    if row is None:
        raise RequestError(
            f"{name}: round {run.round.name} has no inference in profile {run.profile}"
        )
    return row


def found(run: Run, data_set: Callable[[Run], DataSet]) -> Mapping[str, Any]:
    """Return the survey of a run's data: the one given to the run, else a new one."""
    if run.found is not None:
        return run.found
    own = data_set(run)
    seen = own.survey().found
    own.check(seen)
    return seen


def plan(run: Run, calibration: Calibration[Any] | None = None) -> Plan[Any]:
    """Return the engine plan of a run's networks; `calibration` supplies the ranges of a quantised
    network.
    """
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


def warm_up_sizes(run: Run, most: int) -> range:
    """Return the batch sizes to warm up before the clock starts: all, or only the largest if no
    other occurs (`batching.only_full`).
    """
    return range(most if run.settings.get("batching.only_full") else 1, most + 1)


def check_implemented(
    run: Run,
    name: str,
    frameworks: Collection[str] = ("torch",),
    inputs: Collection[str] = ("default",),
) -> None:
    """Reject frameworks and input pipelines that are not implemented, or that this machine lacks
    something for: RequestError, MissingError.

    Silently using another would make the log untrue.
    """
    for kind, found, known in (
        ("framework", run.framework, frameworks),
        ("input", run.input, inputs),
    ):
        if found not in known:
            raise unknown(f"{kind} of {name}", found, known)
    ready(run)
