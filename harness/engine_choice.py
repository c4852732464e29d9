"""Selects the engine for a request, or reports why none fits: before training, before serving and
in `podium doctor`.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from harness.request import RunRequest, choose_served_framework, resolve_request
from suite import registry
from suite.cli import RunOptions
from suite.engine import Engine
from suite.errors import MissingError, PodiumError, RequestError
from suite.rounds import Benchmark, InferenceRow
from suite.terms import AUTOMATIC_ENGINE, QUANTISED, Precision

ENGINE_OPTION_PREFIX: Final = "engine."
"""Prefix of engine settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingRequest:
    """A request to serve, with the round's inference rules and the engine that it names."""

    request: RunRequest
    row: InferenceRow
    engine: Engine[Any]


def resolve_serving_request(options: RunOptions, workload: str) -> ServingRequest:
    """Resolve a request to serve, here or elsewhere; RequestError if the round has no inference
    rules for it, or for what is invalid.
    """
    request = resolve_request(options, workload, serving=True)
    engine = registry.load_engine(request.engine)
    framework = choose_served_framework(engine, request.framework, request.workload)
    row = request.row.inference.get(request.profile)
    if row is None:
        raise RequestError(
            f"{workload} has no inference rules in profile {request.profile} of round"
            f" {request.round.name}"
        )
    return ServingRequest(request=replace(request, framework=framework), row=row, engine=engine)


def check_engine_before_training(request: RunRequest) -> None:
    """Before training, refuse an engine that serving would refuse: one that the user names, with
    its formats and options.
    """
    row = request.row.inference.get(request.profile)
    if row is None or request.engine in (request.framework, AUTOMATIC_ENGINE):
        return
    engine = registry.load_engine(request.engine)
    framework = choose_served_framework(engine, request.framework, request.workload)
    precision = Precision(request.options.precision or Precision.FP32)
    check_serving_engine(
        ServingRequest(
            request=replace(request, framework=framework, precision=precision),
            row=row,
            engine=engine,
        )
    )


def check_serving_engine(serving_request: ServingRequest) -> None:
    """Refuse an engine that cannot serve the request: RequestError for incompatible options,
    MissingError for what this machine or the round lacks.
    """
    request, engine = serving_request.request, serving_request.engine
    if request.framework not in engine.accepts:
        raise RequestError(
            f"engine {request.engine} does not accept {request.framework} networks, only"
            f" {', '.join(sorted(engine.accepts))}"
        )
    if ungenerated := describe_missing_generator(request.row, request.engine, request.precision):
        raise RequestError(f"{request.name}: {ungenerated}")
    reasons = (engine.missing(device, request.precision) for device in request.devices)
    if lacking := next(filter(None, reasons), None):
        able = list_able_engines(request)
        raise MissingError(
            f"engine {request.engine}: {lacking}"
            + (f"; {', '.join(f'--engine {name}' for name in able)} has it" if able else "")
        )
    if unused := describe_unused_options(request, engine):
        raise RequestError(unused)
    if uncalibrated := describe_missing_calibration(
        request.row, serving_request.row, request.precision
    ):
        raise MissingError(f"{request.name}: {uncalibrated}")


def list_able_engines(request: RunRequest) -> list[str]:
    """Return the other engines that have what the request needs on this machine."""
    others = set(registry.map_entry_points(registry.ENGINE_GROUP)) - {request.engine}
    return [name for name in sorted(others) if supports_request(name, request)]


def supports_request(name: str, request: RunRequest) -> bool:
    """Return whether an engine has what the request needs on this machine; one that cannot be
    loaded has not.
    """
    try:
        engine = registry.load_engine(name)
    except MissingError:
        return False
    return request.framework in engine.accepts and not any(
        engine.missing(device, request.precision) for device in request.devices
    )


def describe_unused_options(request: RunRequest, engine: Engine[Any]) -> str:
    """Describe user options that the engine would ignore, or "": the records would list them
    although they had no effect.
    """
    taken = registry.find_engine_options(engine)
    if taken is not None:
        unused = sorted(
            key
            for key in request.chosen
            if key.startswith(ENGINE_OPTION_PREFIX) and key not in taken
        )
    else:
        unused = []
    if not unused:
        return ""
    return (
        f"--set {', '.join(unused)}: engine {engine.name} takes"
        f" {', '.join(sorted(taken or ())) or 'no such options'}"
    )


def describe_missing_generator(benchmark: Benchmark, engine: str, precision: Precision) -> str:
    """Return why an engine cannot generate the workload's answers in a number format, or ""."""
    formats = benchmark.generated_with
    if not formats or precision in formats.get(engine, ()):
        return ""
    if engine not in formats:
        return (
            f"the engine {engine} does not generate token by token; allowed:"
            f" {', '.join(sorted(formats))}"
        )
    return f"its generator has no {precision}; it has {', '.join(formats[engine])}"


def describe_missing_calibration(
    benchmark: Benchmark, row: InferenceRow, precision: Precision
) -> str:
    """Return why the round has no calibration list, or ""."""
    if precision not in QUANTISED or row.calibration:
        return ""
    return (
        f"{precision} needs a calibration list, and the round has no list of this"
        f" workload{benchmark.not_quantised and ': '}{benchmark.not_quantised}"
    )


def list_candidate_engines(workload: str, options: RunOptions) -> list[str]:
    """Return the installed engines that serve the request, the framework's own first."""
    names = sorted(
        registry.map_entry_points(registry.ENGINE_GROUP),
        key=lambda name: (name != options.framework, name),
    )
    return [name for name in names if is_candidate_engine(workload, replace(options, engine=name))]


def is_candidate_engine(workload: str, options: RunOptions) -> bool:
    """Return whether an engine serves networks of the request's framework as it is asked to."""
    try:
        serving_request = resolve_serving_request(options, workload)
        check_serving_engine(serving_request)
    except PodiumError:
        return False
    return serving_request.request.framework == options.framework
