"""The engine of a sweep for `--engine auto`: one for all its subjects, so that they can be
compared.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import click

from harness.engine_choice import list_candidate_engines
from harness.serving.automatic_engine import (
    format_engine_figures,
    try_network_engines,
    try_workload_engines,
)
from harness.serving.studies.system import StudyOptions
from harness.serving.sweep.subjects import (
    SweepOptions,
    set_up_swept_network,
    set_up_swept_systems,
)
from suite import registry
from suite.cli import RunOptions
from suite.errors import MissingError, RequestError
from suite.files.chosen_engine import EngineFigures
from suite.terms import AUTOMATIC_ENGINE


def settle_sweep_engines(options: RunOptions, request: SweepOptions) -> SweepOptions:
    """Return the request with the fastest engine in place of `auto`; with the framework's own, if
    none serves all subjects in all precisions.
    """
    if AUTOMATIC_ENGINE not in request.engines:
        return request
    asked = [replace(options, precision=precision) for precision in request.precisions]
    candidates = [
        *(list_candidate_engines(name, each) for each in asked for name in request.workloads),
        *(list_network_engines(name, each, request) for each in asked for name in request.networks),
    ]
    common = [name for name in candidates[0] if all(name in names for names in candidates)]
    if len(common) > 1:
        own = replace(request, engines=(common[0],))
        study_options = StudyOptions(values={}, checkpoint=request.checkpoint)
        set_up_swept_systems(options, study_options, own)  # refuses an invalid request, untried
        tried = list(try_sweep_engines(asked, request, common))
        common = [name for name in common if all(name in trials for trials in tried)]
        common.sort(key=lambda name: math.prod(each[name].slowness for each in tried))
    fastest = next(iter(common), options.framework)
    engines = (fastest if name == AUTOMATIC_ENGINE else name for name in request.engines)
    return replace(request, engines=tuple(dict.fromkeys(engines)))


def try_sweep_engines(
    asked: Sequence[RunOptions], request: SweepOptions, candidates: Sequence[str]
) -> Iterator[Mapping[str, EngineFigures]]:
    """Yield the engines of each subject in each precision, with their figures."""
    for options in asked:
        for workload in request.workloads:
            trials = try_workload_engines(workload, options, candidates, request.checkpoint)
            yield show_engine_figures(workload, trials)
        for network in request.networks:
            setups = {
                name: set_up_swept_network(network, replace(options, engine=name), request)
                for name in candidates
            }
            systems = {name: each.system for name, each in setups.items()}
            weights = setups[candidates[0]].checkpoint.record.sha256
            yield show_engine_figures(
                network, try_network_engines(network, options, systems, weights)
            )


def show_engine_figures(
    subject: str, trials: Mapping[str, EngineFigures]
) -> Mapping[str, EngineFigures]:
    """Print the figures of a subject's engines, and return them."""
    click.echo(f"{subject}: {format_engine_figures(next(iter(trials)), trials)}")
    return trials


def list_network_engines(network: str, options: RunOptions, request: SweepOptions) -> list[str]:
    """Return the engines that run a bare network here, the framework's own first."""
    own = request.load_network(network).framework
    found = []
    for name in sorted(
        registry.map_entry_points(registry.ENGINE_GROUP), key=lambda name: (name != own, name)
    ):
        with suppress(MissingError, RequestError):
            set_up_swept_network(network, replace(options, engine=name), request)
            found.append(name)
    return found
