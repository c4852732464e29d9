"""Set-up of `podium infer --endpoint http://HOST:PORT`: what servers serve, and how to ask it."""

import statistics
import string
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.children.process import load_ahead
from harness.engine_choice import ServingRequest
from harness.request import RunRequest, resolve_request
from harness.serving.checkpoint_selection import ExportedCheckpoint
from harness.serving.network.access import (
    TOKEN_HEADER,
    ClientCredentials,
    read_option_file,
)
from harness.serving.network.openai.answer_tokens import (
    CLIENT_EXTRA,
    AnswerCounter,
    open_answer_counter,
)
from harness.serving.network.openai.first_answer import FirstFindings, ask_first_answers
from harness.serving.network.openai.loadgen_bridge import run_loadgen_over_http
from harness.serving.network.openai.prompt_requests import (
    MAX_TOKENS_FIELD,
    PromptApi,
    RequestStyle,
)
from harness.serving.network.openai.prompt_system import PromptServers, PromptSystem
from harness.serving.network.openai.server_checks import (
    CheckedServer,
    check_prompt_server,
    measure_openings_ns,
)
from harness.serving.network.openai.server_pool import import_http_parser
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
from harness.serving.network.statements.server_words import FINGERPRINT, identify_server
from harness.serving.network.statements.user_words import join_words, read_user_identity
from harness.serving.network.wire import (
    Endpoint,
    ServerDescription,
    compute_machine_id,
    is_loopback_host,
)
from harness.serving.setup import read_batching_settings
from harness.serving.sites import BoundSystem
from suite import registry
from suite.cli import RunOptions
from suite.console.screen import ACTIVITY
from suite.errors import RequestError
from suite.files.tokenizer_files import TOKENIZER_FILE, import_tokenizers
from suite.loadgen.scenario import Scenario
from suite.records import PROMPTS_FORM, NetworkRecord
from suite.rounds import HyperValue, InferenceRow
from suite.served_identity import ServedIdentity
from suite.terms import Division

HEADER_PREFIX: Final = "endpoint.header."
HEADER_NAME_CHARACTERS: Final = frozenset(string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~")
"""RFC 9110, section 5.6.2, token."""
RESERVED_HEADERS: Final = frozenset(
    {
        "host",
        "content-length",
        "content-type",
        "transfer-encoding",
        "connection",
        "accept",
        "accept-encoding",
    }
)
MAX_HEADER_LENGTH: Final = 4096
"""House rule: of common servers, header fields end at 8 KiB."""
TEMPERATURE_SETTING: Final = "endpoint.temperature"
ABSENT: Final = "absent"
MAX_TEMPERATURE: Final = 2.0
"""OpenAI, API reference."""
STREAMED_SETTING: Final = "endpoint.stream=true"
"""A study of servers needs their first tokens."""
MAX_OPENINGS_S: Final = 0.2
"""How long the opening of connections is timed, for each server."""
SERVER_FACTS: Final = ("version", "software", "engine", "engine_package", "framework", "device")
"""What run.json has of podium's servers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptSite:
    """Servers of an OpenAI-compatible API: they serve prompts, with settings of their own."""

    endpoints: tuple[Endpoint, ...]
    access: ClientCredentials
    scenarios: tuple[Scenario, ...]
    """Those to be measured."""
    model: str = ""
    """Name by which the servers want to be asked for the model; empty: as the settings say."""
    known: ServedIdentity = ServedIdentity()
    """What podium knows of servers that it started, beside what they state."""
    is_remote: bool = True

    def list_candidate_engines(self, workload: str, options: RunOptions) -> list[str]:
        """Return none: the servers have their engine."""
        return []

    def stream_tokens(self, study: str, options: RunOptions) -> RunOptions:
        """Return the options with streamed answers: Offline's are not streamed otherwise."""
        return replace(options, assignments=(*options.assignments, STREAMED_SETTING))

    def resolve_request(self, workload: str, options: RunOptions) -> ServingRequest:
        """Resolve a request that names neither engine nor device."""
        import_http_parser()
        import_tokenizers(workload, CLIENT_EXTRA)
        request = resolve_request(
            replace(options, device="cpu", engine=options.framework), workload, serving=True
        )  # another device is looked for by importing a framework
        check_protocol_settings(request, self.endpoints[0].scheme)
        row = require_prompt_row(request)
        request.workload.require_prompts()
        return ServingRequest(request=request, row=row, engine=ElsewhereEngine())

    def bind_system(
        self, asked: ServingRequest, choose: Callable[[], ExportedCheckpoint]
    ) -> BoundSystem:
        """Look for the servers, then for the weights; the servers' settings count. JudgedError for
        a server that does not answer as it has to.
        """
        request = asked.request
        style = read_request_style(request, self.access)
        style = replace(style, model=self.model or style.model)
        streamed = read_streaming(request)
        if streamed is False and any(each is not Scenario.OFFLINE for each in self.scenarios):
            raise RequestError(
                "setting endpoint.stream: Server measures the time to the first token: stream"
                " answers, or measure Offline alone (--scenario offline)"
            )
        in_flight = get_positive_setting(request, "endpoint.in_flight", DEFAULT_IN_FLIGHT)
        if in_flight < len(self.endpoints):
            raise RequestError(
                f"setting endpoint.in_flight: {in_flight} is less than one for each of"
                f" {len(self.endpoints)} endpoints"
            )
        checked = [
            check_prompt_server(endpoint, self.access, style.headers, style.model)
            for endpoint in self.endpoints
        ]
        chosen = choose()
        user = read_user_identity(request.options.system_file)
        descriptions = [
            each.description or describe_foreign_server(request, chosen, endpoint, each.name)
            for endpoint, each in zip(self.endpoints, checked, strict=True)
        ]
        check_servers_agree(self.endpoints, descriptions)
        check_server_matches(request, chosen, self.endpoints[0], descriptions[0])
        servers = PromptServers(
            endpoints=self.endpoints,
            access=self.access,
            style=style,
            streamed=streamed,
            tokenizer=choose_tokenizer_path(request, chosen),
            in_flight=in_flight,
            timeout_ms=get_positive_setting(request, "endpoint.timeout_ms", None),
            description=descriptions[0],
            ends=frozenset(registry.list_end_tokens(request.name, request.profile.value)),
        )
        first, tokenizer = ask_servers_first(request, chosen, servers, self.scenarios)
        servers = replace(
            servers,
            closing=first.closing,
            has_log_probabilities=first.has_log_probabilities,
        )
        checked = add_fingerprints(checked, self.endpoints, first)
        identity = identify_servers(self.endpoints, checked, user).complete_with(self.known)
        record = describe_prompt_network(servers, checked, descriptions, tokenizer.sha256)
        return self.build_system(asked, chosen, servers, record, identity)

    def build_system(
        self,
        asked: ServingRequest,
        chosen: ExportedCheckpoint,
        servers: PromptServers,
        record: NetworkRecord,
        identity: ServedIdentity,
    ) -> BoundSystem:
        """Build LoadGen's side: neither a network nor what serves one."""
        request = adopt_remote_settings(asked.request, servers.description)
        load_ahead((__name__, "tokenizers", "uvloop", "httptools"))
        run = replace(request.build_run(chosen.record.seed, request.precision), device="cpu")
        system = PromptSystem(
            workload=request.workload,
            engine=ElsewhereEngine(),
            run=run,
            checkpoint=chosen.folder,
            batching=read_batching_settings(request.settings),
            driver=run_loadgen_over_http,
            servers=servers,
        )
        host = ServerHost(description=servers.description, network=record, identity=identity)
        return bind_to_servers(replace(asked, request=request), chosen, system, host)


def ask_servers_first(
    request: RunRequest,
    chosen: ExportedCheckpoint,
    servers: PromptServers,
    scenarios: Collection[Scenario],
) -> tuple[FirstFindings, AnswerCounter]:
    """Ask each server a first prompt in all forms that will be used; return what the answers show,
    and the tokenizer.
    """
    source = request.workload.build_prompts(
        request.build_run(chosen.record.seed, request.precision), chosen.folder
    )
    tokenizer = open_answer_counter(servers.tokenizer, source.end_token, servers.ends)
    ACTIVITY.mark_shown(f"{request.name}: waiting for a first answer")
    forms = {servers.style.streamed, *map(servers.is_streamed_in, scenarios)}
    asks = read_switch(request, "endpoint.logprobs")
    found = ask_first_answers(servers, source, tokenizer, forms, asks_log_probabilities=asks)
    return found, tokenizer


def add_fingerprints(
    checked: Sequence[CheckedServer], endpoints: Sequence[Endpoint], first: FirstFindings
) -> list[CheckedServer]:
    """Return what servers say of themselves, with the fingerprints of their first answers."""
    said = [first.fingerprints.get(each) for each in endpoints]
    return [
        replace(server, words={**server.words, FINGERPRINT: word}) if word else server
        for server, word in zip(checked, said, strict=True)
    ]


def identify_servers(
    endpoints: Sequence[Endpoint], checked: Sequence[CheckedServer], user: ServedIdentity
) -> ServedIdentity:
    """Return what serves, by the words of the servers and of the user; RequestError for servers
    that state different systems, or something else than the user.
    """
    stated = [
        identify_own_server(each.description) if each.description else identify_server(each.words)
        for each in checked
    ]
    for endpoint, other in zip(endpoints[1:], stated[1:], strict=True):
        for name, said in other.list_statements().items():
            first = stated[0].list_statements()[name]
            if said.value != first.value:
                raise RequestError(
                    f"the endpoints are not one system: {name} is {said.text} at {endpoint.url},"
                    f" {first.text} at {endpoints[0].url}"
                )
    return join_words(stated[0], user, endpoints[0].url)


def require_prompt_row(request: RunRequest) -> InferenceRow:
    """Return the round's inference rules; RequestError if there are none for this workload."""
    row = request.row.inference.get(request.profile)
    if row is None:
        raise RequestError(
            f"{request.name} has no inference rules in profile {request.profile} of round"
            f" {request.round.name}"
        )
    return row


def choose_tokenizer_path(request: RunRequest, chosen: ExportedCheckpoint) -> Path:
    """Return the tokenizer's file that the user names, else the checkpoint's."""
    named = request.settings.get("endpoint.tokenizer")
    return Path(str(named)) if named is not None else chosen.folder / TOKENIZER_FILE


def read_switch(request: RunRequest, key: str) -> bool:
    """Return a setting that is on unless the user turns it off."""
    return request.settings.get(key) is not False


def read_temperature(request: RunRequest) -> float | None:
    """Return the temperature that is asked for, None if it is to be left out; RequestError for
    what is none.
    """
    text = str(request.settings.get(TEMPERATURE_SETTING, "0"))
    if text == ABSENT:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= MAX_TEMPERATURE:
        raise RequestError(
            f"setting {TEMPERATURE_SETTING}: {text!r}: give a number from 0 to"
            f" {MAX_TEMPERATURE:g}, or {ABSENT}"
        )
    return value or 0


def read_streaming(request: RunRequest) -> bool | None:
    """Return whether answers are to be streamed; None if the scenario decides."""
    value = request.settings.get("endpoint.stream")
    return value if isinstance(value, bool) else None


def read_request_style(request: RunRequest, access: ClientCredentials) -> RequestStyle:
    """Read what all requests have."""
    headers = dict(
        read_header(key, value)
        for key, value in request.chosen.items()
        if key.startswith(HEADER_PREFIX)
    )
    if access.token and any(name.lower() == TOKEN_HEADER for name in headers):
        raise RequestError(f"--token-file and setting {HEADER_PREFIX}{TOKEN_HEADER}: give one")
    headers |= {name.title(): value for name, value in access.metadata}
    streamed = read_streaming(request)
    return RequestStyle(
        api=PromptApi(str(request.settings.get("endpoint.api", PromptApi.CHAT))),
        model=str(request.settings.get("endpoint.model", request.name)),
        streamed=True if streamed is None else streamed,
        headers=headers,
        asks_usage=read_switch(request, "endpoint.usage"),
        max_tokens_field=str(request.settings.get("endpoint.max_tokens_field", MAX_TOKENS_FIELD)),
        temperature=read_temperature(request),
        greedy_alone=require_prompt_row(request).division is Division.CLOSED,
        reuses_connections=read_switch(request, "endpoint.reuse"),
    )


def read_header(key: str, value: HyperValue) -> tuple[str, str]:
    """Read a header from the file that a setting names; RequestError if that cannot be sent."""
    name = key.removeprefix(HEADER_PREFIX)
    if not HEADER_NAME_CHARACTERS.issuperset(name) or name.lower() in RESERVED_HEADERS:
        raise RequestError(f"setting {key}: no header of this name can be added")
    content = read_option_file(f"setting {key}:", Path(str(value))).strip()
    if not content or len(content) > MAX_HEADER_LENGTH or not is_printable_line(content):
        raise RequestError(
            f"setting {key}: {value}: one line of up to {MAX_HEADER_LENGTH:,} printable ASCII"
            " characters is wanted"
        )
    return name, content.decode("ascii")


def is_printable_line(content: bytes) -> bool:
    """Return whether bytes are one line of ASCII."""
    return all(0x20 <= byte <= 0x7E for byte in content)


def describe_prompt_network(
    servers: PromptServers,
    checked: Sequence[CheckedServer],
    descriptions: Sequence[ServerDescription],
    tokenizer: str,
) -> NetworkRecord:
    """Time the opening of connections, and say which machines there are."""
    endpoints = servers.endpoints
    openings = [
        sorted(measure_openings_ns(each, servers.access, MEASURED_ROUND_TRIPS, MAX_OPENINGS_S))
        for each in endpoints
    ]
    first = checked[0].description
    return NetworkRecord(
        endpoints=tuple(each.url for each in endpoints),
        servers=tuple(each.name for each in checked),
        nodes=tuple(each.node for each in descriptions),
        machines=tuple(each.machine for each in descriptions),
        loadgen_machine=compute_machine_id(),
        loopback=any(is_loopback_host(each.host) for each in endpoints),
        form=PROMPTS_FORM,
        model=servers.style.model,
        round_trip_p50_ns=tuple(int(statistics.median(each)) for each in openings),
        round_trip_p99_ns=tuple(each[-max(1, len(each) // 100) - 1 :][0] for each in openings),
        bytes_out=0,
        bytes_in=0,
        api=servers.style.api.value,
        targets=tuple(
            f"{each.scheme}{'s' if each.tls else ''}://{each.target}"
            f"{servers.style.build_route(each)}"
            for each in endpoints
        ),
        tokenizer=tokenizer,
        in_flight=servers.in_flight,
        server={name: f"{getattr(first, name)}" for name in SERVER_FACTS} if first else None,
        statements=tuple(each.words for each in checked if each.description is None),
    )


def build_prompt_site(
    endpoints: tuple[Endpoint, ...], access: ClientCredentials, scenarios: tuple[Scenario, ...]
) -> PromptSite:
    """Return the site of servers of an OpenAI-compatible API."""
    return PromptSite(endpoints=endpoints, access=access, scenarios=scenarios)
