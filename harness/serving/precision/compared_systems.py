"""The systems of a comparison: engines in LoadGen's process, and servers, of which podium starts
some itself, one after the other.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import click

from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.client_setup import PromptSite
from harness.serving.network.setup import SERVER_SETTING_PREFIXES
from harness.serving.network.wire import HTTP_SCHEME, Endpoint, parse_endpoint
from harness.serving.precision.named_servers import NamedServer
from harness.serving.setup import ServingSetup, set_up_serving
from harness.serving.started_servers.process import (
    StartedServer,
    find_free_port,
    print_last_lines,
    start_program,
)
from harness.serving.started_servers.programs import (
    LOCAL_HOST,
    OWN_PROGRAM,
    PodiumProgram,
    ServedFolder,
    ServerProgram,
    find_executable,
    require_server_program,
)
from harness.serving.studies.system import ServedSystem, SetupKey
from suite.cli import RunOptions
from suite.console.screen import print_progress_note
from suite.errors import MissingError, PodiumError
from suite.files.layout import STATE_FOLDER, convert_to_slug
from suite.rounds import HyperValue
from suite.studies.kind import PlannedRun
from suite.studies.precision_rows import PRECISION_SCENARIOS
from suite.terms import Precision
from suite.workload import Mode

IN_FLIGHT_SETTING: Final = "endpoint.in_flight"
UNKNOWN_ENDPOINT: Final = Endpoint(tls=False, host=LOCAL_HOST, port=1, scheme=HTTP_SCHEME)
"""Stands for a server where only the settings of its clients are asked for."""
CONTEXT_STEP: Final = 16
"""Tokens of a block of vLLM's cache. Source: vLLM, CacheConfig.block_size."""
SERVERS_FOLDER: Final = "servers"
"""In the folder of podium's own files in the results: what started servers printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningServer:
    """A server that podium started."""

    planned: PlannedRun
    """The run that it was started for."""
    server: StartedServer
    site: PromptSite
    stack: ExitStack
    """Ends it."""


@dataclass(slots=True, kw_only=True)
class ComparedSystems(ServedSystem):
    """Engines, and servers by their names. Only one started server runs at a time, and none beside
    an engine.
    """

    servers: Mapping[str, NamedServer]
    server_options: RunOptions
    """The command's, with settings of servers as well."""
    access: ClientCredentials
    in_flight: int
    """Requests that a server gets at once."""
    running: RunningServer | None = None
    client_settings: dict[str, HyperValue] = field(default_factory=dict)
    """Of servers' runs, without the servers' own; empty until they are asked for."""

    def require_setup(self, planned: PlannedRun) -> ServingSetup:
        """Return the set-up of a run, as of any system; a server is started for it."""
        if not planned.server:
            self.stop_server()
            return ServedSystem.require_setup(self, planned)
        key, site = build_server_key(planned), self.require_site(planned)
        if key not in self.setups:
            options, checkpoint = self.build_server_options(planned), self.setup.checkpoint.folder
            self.setups[key] = set_up_serving(self.request_name, options, checkpoint, site)
        return self.setups[key]

    def find_setup(self, planned: PlannedRun) -> ServingSetup | None:
        """Return the set-up of a run, as far as there is one without starting a server."""
        if planned.server and not planned.is_address:
            return self.setups.get(build_server_key(planned))
        return ServedSystem.find_setup(self, planned)

    def collect_planned_settings(self, planned: PlannedRun) -> Mapping[str, HyperValue]:
        """Return the settings that a run has; of a server without its own."""
        if not planned.server:
            return ServedSystem.collect_planned_settings(self, planned)
        if not self.client_settings:
            site = self.build_site(UNKNOWN_ENDPOINT)
            options = self.build_server_options(planned)
            asked = site.resolve_request(self.request_name, options).request.settings
            self.client_settings = {
                name: value
                for name, value in asked.items()
                if not name.startswith(SERVER_SETTING_PREFIXES)
            }
        return self.client_settings

    def explain_error(self, error: PodiumError) -> PodiumError:
        """Return why a run failed: the server that podium started may have ended."""
        server = self.running.server if self.running else None
        end = server.describe_end() if server else ""
        if server is None or not end:
            return error
        print_last_lines(server.log)
        self.stop_server()
        return MissingError(f"the server {end}")

    def stop_server(self) -> None:
        """End the server that podium started, if one runs."""
        running, self.running = self.running, None
        if running is not None:
            self.setups.pop(build_server_key(running.planned), None)
            running.stack.close()

    def require_site(self, planned: PlannedRun) -> PromptSite:
        """Return where the server of a run answers; one that podium starts is started, and the one
        before it ended.
        """
        named = self.servers[planned.server]
        running = self.running
        if running is not None and running.planned.own_name == planned.own_name:
            return running.site
        self.stop_server()
        if named.endpoint is not None:
            return self.build_site(named.endpoint)
        self.running = self.start_server(named, planned)
        return self.running.site

    def start_server(self, named: NamedServer, planned: PlannedRun) -> RunningServer:
        """Start a server, and wait until it answers; MissingError with its last words if it ends
        before.
        """
        served = self.describe_served_folder(planned)
        program, executable = self.choose_program(named)
        print_progress_note(f"{self.workload}: starting the server {named.name}")
        began_s, stack = time.monotonic(), ExitStack()
        scratch = self.locate_scratch(planned)
        server = stack.enter_context(start_program(program, executable, served, scratch))
        click.echo(f"  it answers after {time.monotonic() - began_s:.0f} s")
        site = replace(
            self.build_site(parse_endpoint(server.url)),
            model=server.model,
            known=program.identify_server(served, executable),
        )
        return RunningServer(planned=planned, server=server, site=site, stack=stack)

    def choose_program(self, named: NamedServer) -> tuple[ServerProgram, Path]:
        """Return how a server is started, and its executable."""
        if named.program == OWN_PROGRAM:
            program = PodiumProgram(options=self.options, threads=self.setup.threads)
            return program, Path(sys.executable)
        found = require_server_program(named.program)
        return found, find_executable(named.program, named.environment)

    def describe_served_folder(self, planned: PlannedRun) -> ServedFolder:
        """Return what a server is asked to serve: prompts as long as the longest one."""
        request, checkpoint = self.setup.request, self.setup.checkpoint
        run = request.build_run(checkpoint.record.seed, request.precision)
        source = request.workload.build_prompts(run, checkpoint.folder)
        longest = max(len(source.tokenize_prompt(each)) for each in range(source.sample_count))
        blocks = -(-(longest + source.max_new_tokens) // CONTEXT_STEP)
        return ServedFolder(
            checkpoint=checkpoint.folder,
            model=request.name,
            precision=Precision(planned.precision),
            context=blocks * CONTEXT_STEP,
            in_flight=self.in_flight,
            port=find_free_port(),
        )

    def locate_scratch(self, planned: PlannedRun) -> Path:
        """Return the folder of what a server prints."""
        folder = self.setup.entry.results / STATE_FOLDER / SERVERS_FOLDER
        return folder / convert_to_slug(planned.own_name)

    def build_site(self, endpoint: Endpoint) -> PromptSite:
        """Return the site of a server."""
        access = ClientCredentials()
        if any(each.endpoint == endpoint for each in self.servers.values()):
            access = self.access
        return PromptSite(endpoints=(endpoint,), access=access, scenarios=PRECISION_SCENARIOS)

    def build_server_options(self, planned: PlannedRun) -> RunOptions:
        """Return the options with which the server of a run is measured."""
        assignments = [
            each
            for each in self.server_options.assignments
            if not each.startswith(SERVER_SETTING_PREFIXES)
        ]
        return replace(
            self.server_options,
            assignments=(*assignments, f"{IN_FLIGHT_SETTING}={self.in_flight}"),
            engine=self.server_options.framework,
            precision=None,
            system=self.name_planned_system(planned),
            power="off",
            meter=None,
        )


def build_server_key(planned: PlannedRun) -> SetupKey:
    """Return what the set-up of a server's runs depends on."""
    return SetupKey(
        engine=planned.server, precision=planned.precision, mode=Mode.PERFORMANCE, settings=()
    )
