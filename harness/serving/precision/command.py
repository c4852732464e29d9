"""`podium precision`: accuracy and speed of engines, number formats and servers, as a study."""

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Final

import click

from harness.request import RunRequest, resolve_request
from harness.serving.checkpoint_selection import choose_checkpoint
from harness.serving.network.access import read_client_credentials
from harness.serving.precision.combinations import (
    filter_runnable_combinations,
    iterate_combinations,
)
from harness.serving.precision.compared_systems import IN_FLIGHT_SETTING, ComparedSystems
from harness.serving.precision.named_servers import NamedServer, parse_servers
from harness.serving.studies.driver import measure_system
from harness.serving.studies.result_runs import find_result_threads
from harness.serving.studies.system import ServedSystem, StudyOptions, set_up_study_system
from suite.cli import RunOptions
from suite.columns import Column, Table
from suite.errors import MissingError, RequestError
from suite.loadgen.scenario import Scenario
from suite.studies.kind import PlannedRun
from suite.studies.precision import PRECISION
from suite.studies.precision_rows import ComparedSystem
from suite.terms import Precision

Pairs = Sequence[tuple[str, Precision]]
CLIENT_PREFIX: Final = "endpoint."
"""Of settings of servers' clients."""
LARGEST_BATCH_SETTING: Final = "batching.max_batch"
"""How much an engine answers at once; servers get as many requests at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedServers:
    """The servers that a command names."""

    names: tuple[str, ...] = ()
    ca: Path | None = None
    token_file: Path | None = None


NO_SERVERS: Final = AskedServers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An engine in a number format that is refused before anything starts."""

    engine: str
    precision: Precision
    error: RequestError | MissingError


REFUSAL_TABLE: Final[Table[Refusal]] = Table(
    columns=(
        Column("engine", lambda each: each.engine),
        Column("precision", lambda each: each.precision),
        Column("why", lambda each: str(each.error)),
    )
)


def compare_precisions(
    workload: str,
    options: RunOptions,
    *,
    engine: str | None,
    study_options: StudyOptions,
    servers: AskedServers = NO_SERVERS,
) -> None:
    """Measure every combination that this machine can run, or the servers that are named, and
    engines beside them if one is; print and save the table; JudgedError if a row is not compliant.
    """
    with redirect_stdout(sys.stdout if study_options.output_format == "text" else sys.stderr):
        request = add_precision_settings(resolve_request(drop_client_settings(options), workload))
        named = parse_asked_servers(servers, resolve_request(options, workload), engine)
        chosen = choose_checkpoint(request, study_options.checkpoint)
        pairs = list_asked_pairs(request, engine, named)
        systems = [
            *(ComparedSystem(engine=one, precision=each.value) for one, each in pairs),
            *(each.describe_system(choose_server_precision(options)) for each in named),
        ]
        asked = replace(study_options, values={"systems": systems}, checkpoint=chosen.folder)
        system = set_up_first_system(request, asked, pairs or [(request.framework, Precision.FP32)])
        system.result_threads = find_usable_threads(system, pairs)
        compared = add_servers(system, options, named, servers)
    try:
        measure_system(PRECISION, compared, asked)
    finally:
        compared.stop_server()


def drop_client_settings(options: RunOptions) -> RunOptions:
    """Return the options without settings of servers' clients, which no engine has."""
    left = (each for each in options.assignments if not each.startswith(CLIENT_PREFIX))
    return replace(options, assignments=tuple(left))


def choose_server_precision(options: RunOptions) -> Precision:
    """Return the number format that servers are started with."""
    return options.precision or Precision.FP32


def parse_asked_servers(
    asked: AskedServers, request: RunRequest, engine: str | None
) -> Sequence[NamedServer]:
    """Read the servers of a command. RequestError for a workload that no server can be asked with,
    and for options that say nothing of these servers.
    """
    named = parse_servers(asked.names, choose_server_precision(request.options))
    addresses = [each for each in named if each.endpoint is not None]
    if named:
        request.workload.require_prompts()
    if len(addresses) != 1 and (asked.ca or asked.token_file):
        option = "--ca" if asked.ca else "--token-file"
        raise RequestError(f"{option}: it is for one server that runs already: --server URL")
    if request.options.precision and not engine and named and len(addresses) == len(named):
        raise RequestError("--precision: the servers decide it; omit it")
    return named


def list_asked_pairs(
    request: RunRequest, engine: str | None, servers: Sequence[NamedServer]
) -> Pairs:
    """Return the engines and number formats to measure: beside servers those of an engine that is
    named; MissingError if there are none, and no servers.
    """
    if servers and not engine:
        return ()
    pairs = filter_runnable_combinations(request, list(iterate_combinations(request, engine)))
    if not pairs:
        raise MissingError(
            f"{request.name}: no engine on this machine supports the request; podium doctor"
            f" {request.name} says why"
        )
    return pairs


def add_servers(
    system: ServedSystem,
    options: RunOptions,
    servers: Sequence[NamedServer],
    asked: AskedServers,
) -> ComparedSystems:
    """Return a system that serves by servers as well; RequestError for unreadable files."""
    endpoints = tuple(each.endpoint for each in servers if each.endpoint is not None)
    settings = resolve_request(options, system.request_name).settings
    in_flight = settings.get(IN_FLIGHT_SETTING, settings[LARGEST_BATCH_SETTING])
    own = {each.name: getattr(system, each.name) for each in fields(system)}
    return ComparedSystems(
        **own,
        servers={each.name: each for each in servers},
        server_options=options,
        access=read_client_credentials(endpoints, asked.ca, asked.token_file),
        in_flight=int(str(in_flight)),
    )


def add_precision_settings(request: RunRequest) -> RunRequest:
    """Add the row's settings for this table; the user's own take precedence."""
    added = tuple(f"{key}={value}" for key, value in request.row.precision_settings.items())
    if added:
        return resolve_request(
            replace(request.options, assignments=(*added, *request.options.assignments)),
            request.name,
        )
    return request


def set_up_first_system(
    request: RunRequest, study_options: StudyOptions, pairs: Pairs
) -> ServedSystem:
    """Set the first combination up that is not refused; if all are, print why, and raise the error
    of the first.
    """
    refused: list[Refusal] = []
    for engine, precision in pairs:
        options = replace(request.options, engine=engine, precision=precision)
        try:
            return set_up_study_system(PRECISION, request.name, options, study_options)
        except (RequestError, MissingError) as error:
            refused.append(Refusal(engine=engine, precision=precision, error=error))
    first = refused[0].error
    if len({str(each.error) for each in refused}) == 1:
        raise first
    click.echo(REFUSAL_TABLE.format_aligned_text(refused))
    raise type(first)(f"{request.name}: all {len(refused)} engines and precisions are refused")


def find_usable_threads(system: ServedSystem, pairs: Pairs) -> int:
    """Return the CPU threads of the checkpoint's results, since runs with others would have to be
    made again; 0 if there are none, or this process may not use as many.
    """
    planned = (
        PlannedRun(scenario=Scenario.OFFLINE, engine=engine, precision=precision)
        for engine, precision in pairs
    )
    entries = (
        replace(system.setup.entry, system=system.name_planned_system(each)) for each in planned
    )
    name, sha256 = system.setup.request.row.inference_name, system.setup.checkpoint.record.sha256
    threads = find_result_threads(entries, name, sha256)
    return threads if threads <= len(os.sched_getaffinity(0)) else 0
