"""Set-up of `podium infer --endpoint`: what the servers serve, and whether that is what the
checkpoint and the settings here say.
"""

import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from harness.children.process import load_ahead
from harness.data_survey import add_survey_findings
from harness.machine.placement import INSTANCES_SETTING, resolve_instance_count
from harness.machine.power.selection import choose_power_sources
from harness.machine.system_description import describe_system, read_system_file
from harness.request import RunRequest, resolve_request
from harness.serving.checkpoint_selection import Checkpoint, choose_checkpoint
from harness.serving.network.access import access
from harness.serving.network.connection import Connection
from harness.serving.network.forms import Opaque, form_of
from harness.serving.network.qdl import run_over_network
from harness.serving.network.remote import ElsewhereEngine, Remote, RemoteSystem, agreed, unlike
from harness.serving.network.wire import (
    Endpoint,
    Facts,
    is_loopback,
    machine,
    messages,
    parse_endpoint,
)
from harness.serving.setup import Bench, batching_of, check_legal, served_by
from suite import __version__
from suite.cli import RunOptions
from suite.errors import RequestError
from suite.files.layout import ResultsEntry, convert_to_slug
from suite.records import NetworkRecord
from suite.rounds import Division, InferenceRow
from suite.rounds.settings import PERFORMANCE_PREFIXES
from suite.terms import NETWORK_FIELDS, Precision

OWN: Final = (*PERFORMANCE_PREFIXES, "endpoint.", "power.")
"""Prefixes of settings that are LoadGen's side's own."""
SERVERS: Final = ("batching.", "engine.")
"""Prefixes of settings that are the server's own."""
IN_FLIGHT: Final = 1024
ROUND_TRIPS: Final = 100
MICROSECONDS: Final = 1000
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of `podium infer` that name servers."""

    endpoints: tuple[str, ...]
    ca: Path | None
    token_file: Path | None


def set_up_remote(
    workload: str, options: RunOptions, checkpoint: Path | None, asked: Asked
) -> Bench:
    """Resolve a request to measure servers; RequestError for what does not match, MissingError for
    a server that cannot be used.
    """
    messages()
    endpoints = tuple(parse_endpoint(text) for text in asked.endpoints)
    if len(set(endpoints)) < len(endpoints):
        raise RequestError("--endpoint: the same server is named twice")
    allowed = access(endpoints, asked.ca, asked.token_file)
    request = resolve_request(options, workload, serving=True)
    row = request.row.inference.get(request.profile)
    if row is None:
        raise RequestError(
            f"{workload} has no inference rules in profile {request.profile} of round"
            f" {request.round.name}"
        )
    chosen, form = choose_checkpoint(request, checkpoint), form_of(request.settings, workload)
    connections = [Connection(endpoint, allowed) for endpoint in endpoints]
    for connection in connections:
        connection.check()
    told = isinstance(form, Opaque)
    facts = tuple(
        connection.facts() if told else undescribed(request, chosen, connection)
        for connection in connections
    )
    agreed(endpoints, facts)
    matching(request, chosen, endpoints[0], facts[0])
    remote = Remote(
        endpoints=endpoints,
        access=allowed,
        form=form,
        facts=facts,
        in_flight=positive(request, "endpoint.in_flight", IN_FLIGHT),
        timeout_ms=positive(request, "endpoint.timeout_ms", None),
        record=record_of(connections, facts, form.model, told),
    )
    for connection in connections:
        connection.close()
    return bench_of(request, row, chosen, remote)


def positive(request: RunRequest, key: str, otherwise: Any) -> Any:
    """Return a setting that counts something, or what stands for it; RequestError below 1."""
    value = request.settings.get(key, otherwise)
    if isinstance(value, int) and value < 1:
        raise RequestError(f"setting {key}: {value} is below 1")
    return value


def matching(request: RunRequest, chosen: Checkpoint, endpoint: Endpoint, facts: Facts) -> None:
    """RequestError if a server serves something else than what is to be measured."""
    wanted = {
        "workload": request.name,
        "round": request.round.name,
        "profile": request.profile.value,
    }
    for key, value in wanted.items():
        if getattr(facts, key) != value:
            raise RequestError(
                f"{endpoint.url} serves {key} {getattr(facts, key)}, and {value} is asked for"
            )
    if facts.checkpoint_sha256 != chosen.record.sha256:
        raise RequestError(
            f"{endpoint.url} serves checkpoint {facts.checkpoint_sha256[:16]}, and here"
            f" {chosen.record.sha256[:16]} is measured"
        )
    if facts.version != __version__:
        raise RequestError(f"{endpoint.url} runs podium {facts.version}, and this is {__version__}")
    settings = {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in request.settings.items()
    }
    if strange := [key for key in request.chosen if key.startswith(SERVERS)]:
        raise RequestError(f"setting {strange[0]}: it is the server's; give it to podium serve")
    if different := unlike(settings, facts, (*OWN, *SERVERS)):
        there = ", ".join(f"{key} is {facts.settings.get(key)!r}" for key in different)
        raise RequestError(
            f"{endpoint.url} has other settings: {there}; give podium serve and podium infer the"
            " same"
        )


def undescribed(request: RunRequest, chosen: Checkpoint, connection: Connection) -> Facts:
    """Describe another server, which does not say what it serves: the checkpoint is the user's
    word.
    """
    return Facts(
        workload=request.name,
        round=request.round.name,
        profile=request.profile.value,
        checkpoint_sha256=chosen.record.sha256,
        engine=request.options.engine,
        engine_package="",
        precision=Precision(request.options.precision or Precision.FP32).value,
        framework=request.options.framework,
        device="cpu",
        threads=1,
        settings={
            key: list(value) if isinstance(value, tuple) else value
            for key, value in request.settings.items()
        },
        system=convert_to_slug(request.options.system or f"network-{connection.endpoint.host}"),
        description={},
        machine="",
        node=connection.endpoint.host,
        server=connection.server_name(),
        software=UNKNOWN,
        version=__version__,
    )


def record_of(
    connections: Sequence[Connection], facts: Sequence[Facts], model: str, opaque: bool
) -> NetworkRecord:
    """Measure round trips, and say which machines there are."""
    here = machine()
    trips = [sorted(connection.round_trips_ns(ROUND_TRIPS)) for connection in connections]
    return NetworkRecord(
        endpoints=tuple(connection.endpoint.url for connection in connections),
        servers=tuple(each.server for each in facts),
        nodes=tuple(each.node for each in facts),
        machines=tuple(each.machine for each in facts),
        loadgen_machine=here,
        loopback=any(is_loopback(connection.endpoint.host) for connection in connections),
        form="opaque" if opaque else "tensors",
        model=model,
        round_trip_p50_ns=tuple(int(statistics.median(each)) for each in trips),
        round_trip_p99_ns=tuple(each[-max(1, len(each) // 100) - 1] for each in trips),
        bytes_out=0,
        bytes_in=0,
    )


def division_of(row: InferenceRow, record: NetworkRecord) -> Division:
    """Return the division: network only where the row is closed, all machines are known to be
    others, and the servers say what they serve.
    """
    closed = row.division is Division.CLOSED
    return (
        Division.NETWORK
        if closed and record.is_on_other_machines and record.form == "opaque"
        else Division.OPEN
    )


def bench_of(request: RunRequest, row: InferenceRow, chosen: Checkpoint, remote: Remote) -> Bench:
    """Put together what LoadGen's side needs; engine, number format and batching are the
    servers'.
    """
    if resolve_instance_count(request.settings):
        raise RequestError(
            f"setting {INSTANCES_SETTING}: a system behind --endpoint has its instances elsewhere"
        )
    facts = remote.served
    if row.division is Division.CLOSED:
        check_legal(request, row)
    served = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in facts.settings.items()
        if key.startswith(SERVERS)
    }
    settings = {
        key: value for key, value in request.settings.items() if not key.startswith(SERVERS)
    } | served
    precision = Precision(facts.precision)
    options = replace(
        request.options, engine=facts.engine, framework=facts.framework, precision=precision
    )
    request = replace(request, options=options, settings=settings)
    name = convert_to_slug(options.system or f"{facts.system}-network")
    entry = ResultsEntry(
        results=options.results.absolute(),
        division=division_of(row, remote.record),
        org=options.org,
        system=name,
    )
    run = replace(
        add_survey_findings(request, request.build_run(chosen.record.seed, precision)), device="cpu"
    )
    load_ahead(
        (*served_by(request.workload, options.framework), __name__)
    )  # gRPC is loaded by who connects, never before a fork
    return Bench(
        request=request,
        row=row,
        entry=entry,
        checkpoint=chosen,
        system=RemoteSystem(
            workload=request.workload,
            engine=ElsewhereEngine(),
            run=run,
            checkpoint=chosen.folder,
            batching=batching_of(request),
            driver=run_over_network,
            remote=remote,
        ),
        precision=precision,
        threads=facts.threads,
        power=choose_power_sources(
            "off", None, request.settings
        ),  # this machine's watts are not the system's
        network=remote.record,
        served=facts,
    )


def describe_remote(bench: Bench) -> dict[str, Any]:
    """Describe the servers, then the network with MLCommons' 13 fields; what nobody knows is null,
    and --system-file tells it.
    """
    facts, record = bench.served, bench.network
    assert facts is not None and record is not None
    request = bench.request
    local = describe_system(bench.entry, replace(request.described, system_file=None))
    hardware = {
        key: facts.description.get(key)
        for key in local
        if key not in ("submitter", "division", "status", "system_name", "podium")
    }
    found: dict[str, Any] = {
        **local,
        **hardware,
        "number_of_nodes": len(record.endpoints),
        **network_fields(record, facts),
    }
    return {**found, **read_system_file(request.options.system_file, found)}


def network_fields(record: NetworkRecord, facts: Facts) -> Mapping[str, Any]:
    """Return MLCommons' fields of a networked system."""
    known = {
        "is_network": "true",
        "net_software_stack_loadgen": (
            f"grpcio {version('grpcio')}, tritonclient {version('tritonclient')},"
            f" {platform.system()} {platform.release()}"
        ),
        "net_software_stack_sut": facts.software,
        "network_protocol": (
            "KServe v2, gRPC, HTTP/2, TLS, TCP"
            if record.endpoints[0].startswith("grpcs")
            else "KServe v2, gRPC, HTTP/2, TCP"
        ),
        "number_connections": str(len(record.endpoints)),
    }
    return {field: known.get(field) for field in NETWORK_FIELDS}
