"""Set-up of servers that are measured with the user's own prompts."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from harness.children.process import load_ahead
from harness.engine_choice import ServingRequest
from harness.request import RunRequest, check_request_folders
from harness.serving.checkpoint_selection import ExportedCheckpoint
from harness.serving.loadgen.test_settings import get_numeric_setting, import_loadgen
from harness.serving.network.access import ClientCredentials
from harness.serving.network.openai.answer_tokens import open_answer_counter
from harness.serving.network.openai.client_setup import (
    add_fingerprints,
    describe_prompt_network,
    identify_servers,
    read_request_style,
    read_streaming,
)
from harness.serving.network.openai.first_answer import ask_first_answers
from harness.serving.network.openai.loadgen_bridge import run_loadgen_over_http
from harness.serving.network.openai.prompt_system import PromptServers, PromptSystem
from harness.serving.network.openai.server_checks import check_prompt_server, find_only_model
from harness.serving.network.openai.server_pool import import_http_parser
from harness.serving.network.remote import ElsewhereEngine, check_servers_agree
from harness.serving.network.setup import (
    DEFAULT_IN_FLIGHT,
    ServerHost,
    bind_to_servers,
    describe_foreign_server,
    get_positive_setting,
)
from harness.serving.network.statements.user_words import read_user_identity
from harness.serving.network.wire import Endpoint
from harness.serving.prompts.made_texts import make_texts
from harness.serving.prompts.prompt_file import read_prompt_file
from harness.serving.prompts.prompt_set import PromptSet
from harness.serving.prompts.source import NO_END_TOKEN, AskedPrompts, PromptedModel, UserPrompts
from harness.serving.prompts.text_sizes import parse_text_sizes
from harness.serving.prompts.token_counters import open_token_counter
from harness.serving.setup import ServingSetup, read_batching_settings
from suite import __version__, registry
from suite.cli import RunOptions
from suite.console.screen import ACTIVITY
from suite.errors import RequestError
from suite.files.layout import convert_to_slug
from suite.files.tokenizer_files import import_tokenizers
from suite.loadgen.salting import Salting
from suite.loadgen.scenario import Scenario
from suite.records import CheckpointRecord
from suite.rounds import Benchmark, Division, InferenceRow, Profile, Round, ScenarioRow
from suite.rounds.settings import PERFORMANCE_PREFIXES, read_chosen_settings
from suite.studies.concurrency_curve import DURATION_SETTING
from suite.studies.own_prompts import (
    PROMPTS_FIELDS_SETTING,
    PROMPTS_LENGTH_SETTING,
    PROMPTS_SALTED_SETTING,
    SUBJECT_PREFIX,
)
from suite.terms import Precision
from suite.workload import Workload

NO_PART: Final = ""
"""Parts of a workload that nobody asks for."""
PROMPTS_EXTRA: Final = "client"
SETTING_PREFIXES: Final = (*PERFORMANCE_PREFIXES, "endpoint.", "batching.max_batch")
"""Settings that count where servers answer the user's prompts."""
UNUSED_SETTINGS: Final = ("batching.", "engine.", "sut.")
"""Settings of systems that podium serves itself."""
RESERVED_FIELDS: Final = frozenset(
    {
        "model",
        "messages",
        "prompt",
        "stream",
        "stream_options",
        "temperature",
        "max_tokens",
        "max_completion_tokens",
    }
)
"""Fields of requests that podium writes itself."""
DURATIONS_MS: Final[Mapping[Profile, int]] = {
    Profile.SMOKE: 5_000,
    Profile.QUICK: 20_000,
    Profile.FULL: 600_000,
}
"""Shortest run of each profile, as of an ONNX file (harness/serving/onnx_file/speed.py)."""
LATENCY_PERCENTILE: Final = 90.0
BOUND_PERCENTILE: Final = 99.0
"""Of LoadGen's own verdict, and the usual share of requests within the bounds."""
FEWEST_QUERIES: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptOptions:
    """The command line's request for servers and prompts."""

    endpoints: tuple[Endpoint, ...]
    access: ClientCredentials
    prompts: str
    """A path, or sizes."""
    tokenizer: Path | None = None
    model: str = ""
    """Empty: the only one that the server lists."""
    max_tokens: int | None = None
    ignore_eos: bool = False
    seed: int | None = None
    """Of made texts, and of each request; None: 0, and none."""
    salt: bool = False
    """Whether each request's prompt begins with words of its own."""
    body: tuple[str, ...] = ()
    """Further fields of requests, KEY=VALUE."""
    first_token_ns: int | None = None
    per_token_ns: int | None = None
    """Bounds within which a request is good; None: there are none."""
    percentile: float = BOUND_PERCENTILE
    """Share of the requests that is to be within both bounds, 0-100."""
    scenarios: tuple[Scenario, ...] = (Scenario.OFFLINE,)

    @property
    def has_bounds(self) -> bool:
        """Return whether requests have a bound."""
        return self.first_token_ns is not None or self.per_token_ns is not None


def set_up_prompted_servers(options: RunOptions, asked: PromptOptions) -> ServingSetup:
    """Look for the servers, read or make the prompts, and ask a first one. RequestError,
    JudgedError and MissingError for what cannot be measured, before anything counts.
    """
    check_request_folders(options)
    import_http_parser(PROMPTS_EXTRA)
    import_loadgen(PROMPTS_EXTRA)
    if asked.tokenizer is not None:
        import_tokenizers("--tokenizer", PROMPTS_EXTRA)
    round = registry.load_round()
    chosen = read_chosen_settings(round.settings, options.config, options.assignments)
    for key in chosen:
        if key.startswith(UNUSED_SETTINGS):
            raise RequestError(f"setting {key}: it is the server's")
    fields = read_body_fields(asked)
    texts = None if parse_text_sizes(asked.prompts) else read_prompt_file(Path(asked.prompts))
    first = asked.endpoints[0]
    model = asked.model or str(chosen.get("endpoint.model", ""))
    model = model or find_only_model(first, asked.access, dict(asked.access.metadata))
    prompts = texts or make_prompt_texts(asked, model)
    requests = AskedPrompts(prompts=prompts, max_tokens=asked.max_tokens, fields=fields)
    request = build_prompt_request(options, asked, round, requests, model)
    return bind_prompted_servers(request, asked, requests)


def read_body_fields(asked: PromptOptions) -> Mapping[str, Any]:
    """Return the further fields of requests; RequestError for one that podium writes itself."""
    fields: dict[str, Any] = {}
    if asked.ignore_eos:
        fields["ignore_eos"] = True
    if asked.seed is not None:
        fields["seed"] = asked.seed
    for each in asked.body:
        key, equals, text = each.partition("=")
        if not equals or not key:
            raise RequestError(f"--body {each}: write KEY=VALUE")
        if key in RESERVED_FIELDS:
            raise RequestError(f"--body {key}: podium writes this field; use its own option")
        try:
            fields[key] = json.loads(text)
        except ValueError:
            fields[key] = text
    return fields


def make_prompt_texts(asked: PromptOptions, model: str) -> PromptSet:
    """Make texts of the sizes that are asked for."""
    sizes = parse_text_sizes(asked.prompts)
    assert sizes is not None
    counter = open_token_counter(asked.tokenizer, asked.endpoints[0], asked.access, model)
    return make_texts(sizes, counter, asked.seed or 0)


def build_prompt_request(
    options: RunOptions, asked: PromptOptions, round: Round, requests: AskedPrompts, model: str
) -> RunRequest:
    """Build the request for a model behind an address, which has no workload and no row of the
    round.
    """
    profile = Profile(options.profile)
    chosen = read_chosen_settings(round.settings, options.config, options.assignments)
    defaults = {
        key: setting.default
        for key, setting in round.settings.items()
        if setting.default is not None and key.startswith(SETTING_PREFIXES)
    }
    name = SUBJECT_PREFIX + convert_to_slug(model).lower()
    settings = {
        **defaults,
        **chosen,
        "endpoint.model": model,
        **requests.prompts.describe_settings(),
        PROMPTS_LENGTH_SETTING: requests.most_tokens,
        PROMPTS_FIELDS_SETTING: json.dumps(dict(requests.fields), sort_keys=True),
        **({PROMPTS_SALTED_SETTING: True} if asked.salt else {}),
    }
    lasts_ms = int(get_numeric_setting(chosen, DURATION_SETTING, DURATIONS_MS[profile]))
    row = build_prompt_row(lasts_ms, asked, len(requests.prompts))
    return RunRequest(
        name=name,
        options=options,
        workload=Workload(name=name, training=NO_PART, inference=NO_PART, score=NO_PART),
        round=round,
        row=Benchmark(
            title=model,
            training_name=name,
            inference_name=name,
            metrics={},
            settings=round.settings,
            training={},
            inference={profile: row},
        ),
        profile=profile,
        settings=settings,
        chosen=chosen,
        devices=("cpu",),
        framework=options.framework,
        engine=options.framework,
        precision=Precision.FP32,
    )


def build_prompt_row(lasts_ms: int, asked: PromptOptions, prompts: int) -> InferenceRow:
    """Return the conditions of all scenarios: how long they last, and the user's bounds in
    Server.
    """
    plain = ScenarioRow(
        percentile=LATENCY_PERCENTILE,
        min_duration_ms=lasts_ms,
        min_queries=1,
        token_latencies=True,
    )
    server = replace(
        plain,
        percentile=asked.percentile,
        min_queries=FEWEST_QUERIES,
        first_token_ns=asked.first_token_ns,
        per_token_ns=asked.per_token_ns,
    )
    scenarios = {
        Scenario.SINGLE_STREAM: replace(plain, min_queries=FEWEST_QUERIES),
        Scenario.SERVER: server,
        Scenario.OFFLINE: plain,
    }
    return InferenceRow(division=Division.OPEN, performance_samples=prompts, scenarios=scenarios)


def bind_prompted_servers(
    request: RunRequest, asked: PromptOptions, requests: AskedPrompts
) -> ServingSetup:
    """Look for the servers, and ask each a first prompt."""
    style = read_request_style(request, asked.access)
    in_flight = get_positive_setting(request, "endpoint.in_flight", DEFAULT_IN_FLIGHT)
    checked = [
        check_prompt_server(endpoint, asked.access, style.headers, style.model)
        for endpoint in asked.endpoints
    ]
    chosen = describe_unknown_weights(request, requests, asked.endpoints)
    user = read_user_identity(request.options.system_file)
    descriptions = [
        each.description or describe_foreign_server(request, chosen, endpoint, each.name)
        for endpoint, each in zip(asked.endpoints, checked, strict=True)
    ]
    check_servers_agree(asked.endpoints, descriptions)
    servers = PromptServers(
        endpoints=asked.endpoints,
        access=asked.access,
        style=style,
        streamed=True if read_streaming(request) is None else read_streaming(request),
        tokenizer=asked.tokenizer,
        in_flight=max(in_flight, len(asked.endpoints)),
        timeout_ms=get_positive_setting(request, "endpoint.timeout_ms", None),
        description=descriptions[0],
        ends=frozenset(),
        speed_alone=True,
        salting=Salting.REQUEST if asked.salt else Salting.NONE,
    )
    tokenizer = open_answer_counter(asked.tokenizer, NO_END_TOKEN, servers.ends)
    ACTIVITY.mark_shown(f"{request.name}: waiting for a first answer")
    source = UserPrompts(requests)
    first = ask_first_answers(servers, source, tokenizer, {servers.style.streamed})
    servers = replace(servers, closing=first.closing)
    checked = add_fingerprints(checked, asked.endpoints, first)
    record = describe_prompt_network(servers, checked, descriptions, tokenizer.sha256)
    load_ahead((__name__, "tokenizers", "uvloop", "httptools"))
    system = PromptSystem(
        workload=PromptedModel(asked=requests),
        engine=ElsewhereEngine(),
        run=replace(request.build_run(0, request.precision), device="cpu"),
        checkpoint=Path(),
        batching=read_batching_settings(request.settings),
        driver=run_loadgen_over_http,
        servers=servers,
    )
    identity = identify_servers(asked.endpoints, checked, user)
    host = ServerHost(description=servers.description, network=record, identity=identity)
    row = request.row.inference[request.profile]
    serving = ServingRequest(request=request, row=row, engine=ElsewhereEngine())
    bound = bind_to_servers(serving, chosen, system, host)
    return ServingSetup(
        request=bound.request,
        row=row,
        entry=bound.entry,
        checkpoint=bound.checkpoint,
        system=bound.system,
        threads=bound.threads,
        power=bound.power,
        host=bound.host,
    )


def describe_unknown_weights(
    request: RunRequest, requests: AskedPrompts, endpoints: Sequence[Endpoint]
) -> ExportedCheckpoint:
    """Describe the servers' weights as a checkpoint that nobody here has. Its nonce binds each run
    to the prompts.
    """
    model = request.settings["endpoint.model"]
    record = CheckpointRecord(
        workload=request.name,
        round=request.round.name,
        profile=request.profile.value,
        framework=request.framework,
        sha256="",
        nonce=requests.prompts.sha256[:32],
        seed=0,
        run_index=0,
        training_log="",
        target_reached=False,
        scores={},
        reference_accuracy={},
        settings={},
        version=__version__,
        origin=f"{model} behind {', '.join(each.url for each in endpoints)}",
    )
    return ExportedCheckpoint(folder=Path(), record=record)


def copy_with_in_flight(setup: ServingSetup, in_flight: int) -> ServingSetup:
    """Return the set-up with so many requests in flight; RequestError for fewer than servers."""
    system, host = setup.system, setup.host
    assert isinstance(system, PromptSystem) and isinstance(host, ServerHost)
    if in_flight < len(system.servers.endpoints):
        raise RequestError(
            f"{in_flight} in flight is less than one for each of {len(system.servers.endpoints)}"
            " endpoints"
        )
    settings = {**setup.request.settings, "endpoint.in_flight": in_flight}
    return replace(
        setup,
        request=replace(setup.request, settings=settings),
        system=replace(
            system,
            servers=replace(system.servers, in_flight=in_flight),
            run=replace(system.run, settings=settings),
        ),
        host=replace(host, network=replace(host.network, in_flight=in_flight)),
    )
