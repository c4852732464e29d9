"""Set-up of `podium infer --endpoint grpc://HOST:PORT`: what servers serve, and how to ask them."""

import statistics
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from extras.kserve.connection import ServerConnection
from extras.kserve.forms import OpaqueForm, choose_request_form
from extras.kserve.messages import import_kserve_messages
from extras.kserve.qdl import run_loadgen_over_network
from extras.kserve.remote import RemoteServers, RemoteSystem
from harness.engine_choice import ServingRequest, resolve_serving_request
from harness.serving.checkpoint_selection import ExportedCheckpoint
from harness.serving.network.access import ClientCredentials
from harness.serving.network.remote import ElsewhereEngine, check_servers_agree
from harness.serving.network.setup import (
    DEFAULT_IN_FLIGHT,
    MEASURED_ROUND_TRIPS,
    ServerHost,
    adopt_remote_settings,
    bind_to_servers,
    check_protocol_settings,
    check_server_matches,
    describe_foreign_server,
    get_positive_setting,
    identify_own_server,
)
from harness.serving.network.statements.user_words import join_words, read_user_identity
from harness.serving.network.wire import (
    Endpoint,
    ServerDescription,
    compute_machine_id,
    is_loopback_host,
)
from harness.serving.setup import prepare_serving_run, read_batching_settings
from harness.serving.sites import BoundSystem
from suite.cli import RunOptions
from suite.errors import RequestError
from suite.loadgen.scenario import Scenario
from suite.records import OPAQUE_FORM, TENSORS_FORM, NetworkRecord
from suite.served_identity import ServedIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class KServeSite:
    """Servers of KServe's protocol, over gRPC: they serve, with settings of their own."""

    endpoints: tuple[Endpoint, ...]
    access: ClientCredentials
    is_remote: bool = True

    def list_candidate_engines(self, workload: str, options: RunOptions) -> list[str]:
        """Return none: the servers have their engine."""
        return []

    def stream_tokens(self, study: str, options: RunOptions) -> RunOptions:
        """RequestError: an answer comes whole."""
        raise RequestError(
            f"--endpoint {self.endpoints[0].url}: a {study} needs a server that streams tokens"
        )

    def resolve_request(self, workload: str, options: RunOptions) -> ServingRequest:
        """Resolve a request that names no engine."""
        import_kserve_messages()
        asked = resolve_serving_request(replace(options, engine=options.framework), workload)
        check_protocol_settings(asked.request, self.endpoints[0].scheme)
        choose_request_form(asked.request.settings, workload)  # refuses before a server is asked
        return asked

    def bind_system(
        self, asked: ServingRequest, choose: Callable[[], ExportedCheckpoint]
    ) -> BoundSystem:
        """Look for the servers, then for the weights; the servers' settings count."""
        request = asked.request
        form = choose_request_form(request.settings, request.name)
        with ExitStack() as opened:
            connections = [
                opened.enter_context(closing(ServerConnection(endpoint, self.access)))
                for endpoint in self.endpoints
            ]
            for connection in connections:
                connection.check_server()
            user = read_user_identity(request.options.system_file)
            chosen = choose()
            is_opaque = isinstance(form, OpaqueForm)
            if is_opaque:
                descriptions = tuple(each.request_description() for each in connections)
            else:
                descriptions = tuple(
                    describe_foreign_server(
                        request, chosen, each.endpoint, each.request_server_name()
                    )
                    for each in connections
                )
            check_servers_agree(self.endpoints, descriptions)
            check_server_matches(request, chosen, self.endpoints[0], descriptions[0])
            if is_opaque:
                stated = identify_own_server(descriptions[0])
            else:
                stated = connections[0].identify_model(form.model)
            identity = join_words(stated, user, self.endpoints[0].url)
            remote = RemoteServers(
                endpoints=self.endpoints,
                access=self.access,
                form=form,
                descriptions=descriptions,
                in_flight=get_positive_setting(request, "endpoint.in_flight", DEFAULT_IN_FLIGHT),
                timeout_ms=get_positive_setting(request, "endpoint.timeout_ms", None),
                record=measure_network(connections, descriptions, form.model, is_opaque),
            )
        return self.build_system(asked, chosen, remote, identity)

    def build_system(
        self,
        asked: ServingRequest,
        chosen: ExportedCheckpoint,
        remote: RemoteServers,
        identity: ServedIdentity,
    ) -> BoundSystem:
        """Build LoadGen's side."""
        request = adopt_remote_settings(asked.request, remote.description)
        run = replace(
            prepare_serving_run(request, chosen, (__name__,)), device="cpu"
        )  # gRPC is loaded by who connects, never before a fork
        system = RemoteSystem(
            workload=request.workload,
            engine=ElsewhereEngine(),
            run=run,
            checkpoint=chosen.folder,
            batching=read_batching_settings(request.settings),
            driver=run_loadgen_over_network,
            remote=remote,
        )
        host = ServerHost(description=remote.description, network=remote.record, identity=identity)
        return bind_to_servers(replace(asked, request=request), chosen, system, host)


def measure_network(
    connections: Sequence[ServerConnection],
    descriptions: Sequence[ServerDescription],
    model: str,
    opaque: bool,
) -> NetworkRecord:
    """Measure round trips, and say which machines there are."""
    here = compute_machine_id()
    trips = [
        sorted(connection.measure_round_trips_ns(MEASURED_ROUND_TRIPS))
        for connection in connections
    ]
    return NetworkRecord(
        endpoints=tuple(connection.endpoint.url for connection in connections),
        servers=tuple(each.server for each in descriptions),
        nodes=tuple(each.node for each in descriptions),
        machines=tuple(each.machine for each in descriptions),
        loadgen_machine=here,
        loopback=any(is_loopback_host(connection.endpoint.host) for connection in connections),
        form=OPAQUE_FORM if opaque else TENSORS_FORM,
        model=model,
        round_trip_p50_ns=tuple(int(statistics.median(each)) for each in trips),
        round_trip_p99_ns=tuple(each[-max(1, len(each) // 100) - 1] for each in trips),
        bytes_out=0,
        bytes_in=0,
    )


def build_kserve_site(
    endpoints: tuple[Endpoint, ...], access: ClientCredentials, scenarios: tuple[Scenario, ...]
) -> KServeSite:
    """Return the site of servers that speak KServe's protocol, in whatever scenarios."""
    return KServeSite(endpoints=endpoints, access=access)
