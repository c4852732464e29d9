"""Selects the engine for a request, or reports why none fits: before training, before serving and
in `podium doctor`.
"""

from typing import Any, Final

from harness.request import RunRequest, choose_served_framework
from suite import registry
from suite.engine import Engine
from suite.errors import MissingError, RequestError
from suite.rounds import Benchmark, InferenceRow
from suite.terms import QUANTISED, Precision

ENGINE_OPTION_PREFIX: Final = "engine."
"""Prefix of engine settings."""


def check_serving_engine(request: RunRequest) -> None:
    """Before training, refuse an engine that serving would refuse: one that the user names, with
    its formats and options.
    """
    row, options = request.row.inference.get(request.profile), request.options
    if row is not None and options.engine != options.framework:
        require_engine(request, row, Precision(options.precision or Precision.FP32))


def require_engine(request: RunRequest, row: InferenceRow, precision: Precision) -> Engine[Any]:
    """Return the engine to serve with; RequestError for incompatible options, MissingError for what
    this machine or the round lacks.
    """
    options = request.options
    engine = registry.load_engine(options.engine)
    framework = choose_served_framework(options.engine, options.framework, request.workload)
    if framework not in engine.accepts:
        raise RequestError(
            f"engine {options.engine} does not accept {framework} networks, only"
            f" {', '.join(sorted(engine.accepts))}"
        )
    lacking = next(
        filter(None, (engine.missing(device, precision) for device in request.devices)), None
    )
    if lacking:
        raise MissingError(f"engine {options.engine}: {lacking}")
    if unused := describe_unused_options(request, engine):
        raise RequestError(unused)
    if uncalibrated := describe_missing_calibration(request.row, row, precision):
        raise MissingError(f"{request.name}: {uncalibrated}")
    return engine


def describe_unused_options(request: RunRequest, engine: Engine[Any]) -> str:
    """Describe user options that the engine would ignore, or "": the records would list them
    although they had no effect.
    """
    taken = registry.find_engine_options(engine)
    unused = (
        []
        if taken is None
        else sorted(
            key
            for key in request.chosen
            if key.startswith(ENGINE_OPTION_PREFIX) and key not in taken
        )
    )
    return (
        f"--set {', '.join(unused)}: engine {engine.name} takes"
        f" {', '.join(sorted(taken or ())) or 'no such options'}"
        if unused
        else ""
    )


def describe_missing_calibration(
    benchmark: Benchmark, row: InferenceRow, precision: Precision
) -> str:
    """Return why the round has no calibration list, or ""."""
    if precision not in QUANTISED or row.calibration:
        return ""
    return (
        f"{precision} needs a calibration list, and the round has none of this"
        f" workload{benchmark.not_quantised and ': '}{benchmark.not_quantised}"
    )
