"""Check systems under test behind a network: which machines asked and answered, and what the
Network Division allows.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from compliance.kinds.podium.documents.inference import InferenceEntry, LoadGenRun
from compliance.kinds.podium.documents.system_description import SystemFile
from compliance.kinds.podium.rules.inference.run_record import build_record_fault
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import ACCURACY_LOG, TOKEN_RECORD_FILE, USAGE_RECORD_FILE
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.salting import Salting
from suite.loadgen.scenario import Scenario
from suite.loadgen.server_counters import (
    MAX_COUNT_DIFFERENCE,
    Counted,
    is_count_alike,
    sum_counters,
)
from suite.loadgen.token_record import (
    MAX_SHARE_IN_ONE_READ,
    TokenTimes,
    is_streaming_credible,
    is_token_count_credible,
)
from suite.loadgen.usage_record import (
    NOT_STATED,
    USAGE_RECORD_FIELDS,
    format_cached_tokens,
    sum_stated_counts,
)
from suite.records import PROMPTS_FORM, NetworkRecord
from suite.served_identity import Speaker
from suite.studies.own_prompts import (
    has_distinct_prompts,
    has_own_prompts,
    has_salted_prompts,
)
from suite.terms import NETWORK_FIELDS, Division

NETWORK_SUT_NAME: Final = "Network SUT"
NETWORK_SCENARIOS: Final = ("Server", "Offline")
PROMPT_APIS: Final = ("chat", "completions")
MODEL_SETTING: Final = "endpoint.model"
SHA256_PATTERN: Final = re.compile("[0-9a-f]{64}")
STATED_FIELDS: Final = ("engine", "precision", "device")
"""Fields of system.json that are statements about servers."""
WITNESSES: Final = (Speaker.SERVER, Speaker.USER)
MAX_SHARED_BEGIN: Final = 64
"""House rule: tokens at the begin of all prompts that a chat template writes; Llama 3's has 30."""
MAX_CACHED_SHARE: Final = 0.5
"""House rule: of the tokens of short prompts, of which the template's are a large part."""
SHARED_NETWORK_FIELDS: Final = (
    "endpoints",
    "servers",
    "nodes",
    "machines",
    "loadgen_machine",
    "loopback",
    "form",
    "model",
    "api",
    "targets",
    "tokenizer",
    "in_flight",
)
"""Fields that are equal in the networks of all runs of an entry; round trips and bytes differ."""


@rule("network.scenario", LoadGenRun, About.RULES)
def scenario(run: LoadGenRun) -> Iterator[Fault]:
    """A system behind a network is measured only in Server and Offline. In a study it may be
    measured in SingleStream as well, since that is no result.

    Source: inference_rules.adoc, Network Division: the datacenter suite only.
    Advice: serve the other scenarios on LoadGen's machine.
    """
    label = run.scenario.label if run.scenario else "no scenario"
    if run.record is None or (run.is_studied and run.scenario is Scenario.SINGLE_STREAM):
        return
    if run.record.network and label not in NETWORK_SCENARIOS:
        yield build_record_fault(
            run,
            f"{label} over a network",
            " or ".join(NETWORK_SCENARIOS),
        )


@rule("network.name", LoadGenRun, About.IDENTITY)
def name(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen's name of a system behind a network contains 'Network SUT' and each server's name. No
    other system has such a name.

    Source: inference_rules.adoc, Network Division: Name() of the QDL.
    Advice: keep the logs that LoadGen wrote, and name each server once.
    """
    sut_name = run.find_value("sut_name")
    network = run.record.network if run.record else None
    if not isinstance(sut_name, str) or run.record is None:
        return
    if (NETWORK_SUT_NAME in sut_name) != bool(network):
        required = "a system without a network: run.json has none"
        if network:
            required = f"a name with '{NETWORK_SUT_NAME}'"
        yield run.build_fault(f"sut_name {sut_name!r}", required, "sut_name")
    named = [
        part.rpartition(" at ")[2] for part in sut_name.partition(NETWORK_SUT_NAME)[2].split(", ")
    ]
    if not (network and NETWORK_SUT_NAME in sut_name):
        return
    for place in list_endpoint_addresses(network):
        if named.count(place) != 1:
            yield run.build_fault(
                f"sut_name {sut_name!r}", f"the name of {place}, once", "sut_name"
            )


def list_endpoint_addresses(network: NetworkRecord) -> list[str]:
    """Return host:port of each endpoint."""
    return [endpoint.partition("://")[2] for endpoint in network.endpoints]


@rule("network.requests", LoadGenRun, About.RULES)
def requests(run: LoadGenRun) -> Iterator[Fault]:
    """Each request over a network contains one sample: LoadGen's side neither batches nor pads.

    Source: inference_rules.adoc, Network Division: the QDL is a proxy; batching belongs to the
    system under test.
    Advice: serve again with podium infer --endpoint, which sends one sample in a request.
    """
    if run.record is None or run.record.network is None:
        return
    mean, network = run.record.batches.get("mean_size"), run.record.network
    if mean != 1.0:
        yield build_record_fault(run, f"requests of {mean} samples", "1 sample in each")
    if min(network.bytes_out, network.bytes_in) <= 0:
        yield build_record_fault(
            run,
            f"{network.bytes_out} bytes of requests, {network.bytes_in} of answers",
            "more than 0 bytes: all data cross the network",
        )


@rule("network.prompts", LoadGenRun, About.IDENTITY)
def prompts(run: LoadGenRun) -> Iterator[Fault]:
    """For a run over an OpenAI-compatible API, run.json states the endpoints and how many prompts
    each got, the tokenizer that counted the answers, and the open connections. Server's answers are
    streamed. Where the prompts are the user's own, there may be no tokenizer. Only compliance tests
    salt prompts, and systems whose settings say so (`prompts.salted`).

    Source: house rule; mlcommons/endpoints_policies, endpoints_rules.md, 2.8: one tokenizer counts
    all tokens.
    Advice: serve again with podium infer --endpoint, which records the endpoints and the tokenizer.
    """
    network = run.record.network if run.record else None
    if network is None or network.form != PROMPTS_FORM:
        return
    if network.api not in PROMPT_APIS:
        yield build_record_fault(run, f"api {network.api!r}", " or ".join(PROMPT_APIS))
    if len(network.targets) != len(network.endpoints) or not all(
        target.startswith(endpoint.removesuffix("/v1"))
        for target, endpoint in zip(network.targets, network.endpoints, strict=False)
    ):
        yield build_record_fault(
            run, f"targets {', '.join(network.targets) or 'none'}", "one of each endpoint's routes"
        )
    if not SHA256_PATTERN.fullmatch(network.tokenizer) and not is_counted_by_usage(run):
        yield build_record_fault(run, f"tokenizer {network.tokenizer!r}", "its SHA-256")
    asked = run.record.settings.get(MODEL_SETTING) if run.record else None
    if is_asked_own_prompts(run) and network.model != asked:
        yield build_record_fault(run, f"model {network.model!r}", f"{asked!r}, as in the settings")
    if not 0 < network.connections <= network.in_flight:
        yield build_record_fault(
            run,
            f"{network.connections} connections for {network.in_flight} requests in flight",
            "at least one, and at most one for each request",
        )
    if run.audited_by is None:
        yield from check_salting_of_prompts(run, network)
    if run.scenario is Scenario.SERVER and not network.streamed:
        yield build_record_fault(
            run, "Server without streams", "streams: the time to the first token has a bound"
        )


def check_salting_of_prompts(run: LoadGenRun, network: NetworkRecord) -> Iterator[Fault]:
    """Yield a fault if prompts are not salted as the system's settings say."""
    wanted, words = Salting.NONE, "prompts as the workload has them"
    if run.record is not None and has_salted_prompts(run.record.system):
        wanted, words = Salting.REQUEST, "a salt for each request, as in the settings"
    if network.salted is not wanted:
        yield build_record_fault(run, f"prompts salted by {network.salted or 'nothing'}", words)


def is_asked_own_prompts(run: LoadGenRun) -> bool:
    """Return whether a run's prompts are the user's own."""
    return run.record is not None and has_own_prompts(run.record.system)


def is_counted_by_usage(run: LoadGenRun) -> bool:
    """Return whether nobody but the servers counted the answers' tokens: the prompts are the user's
    own, and there is no tokenizer.
    """
    network = run.record.network if run.record else None
    return network is not None and not network.tokenizer and is_asked_own_prompts(run)


@rule("network.tokens", LoadGenRun, About.SCORE)
def tokens(run: LoadGenRun) -> Iterator[Fault]:
    """The token counts that servers of an OpenAI-compatible API reported to LoadGen match the
    answers' text: within one token of each answer and two per cent. tokens.npy has the same counts,
    and the time of a first token if answers were streamed. Where the prompts are the user's own and
    there is no tokenizer, the servers' counts are all there is.

    Source: house rule: servers may or may not count the token that ends an answer, and a tokenizer
    may split a text otherwise than it was generated.
    Advice: measure a server whose `usage` counts the tokens of its answers, without reasoning; name
    the tokenizer of its model with endpoint.tokenizer.
    """
    network = run.record.network if run.record else None
    if run.record is None or network is None or network.form != PROMPTS_FORM:
        return
    answers, lines = run.record.batches.get("count", 0.0), run.answers.counted_lines
    of_all = (network.tokens_logged, network.tokens_recounted, answers, "all answers")
    of_logged = (run.answers.stated_tokens, run.answers.held_tokens, lines, "the logged answers")
    compared = (of_all,) if is_counted_by_usage(run) else (of_all, of_logged)
    for logged, counted, number, where in compared:
        if not is_token_count_credible(logged, counted, number):
            yield build_record_fault(
                run, f"{logged} tokens of {where} told to LoadGen", f"about {counted}, their texts'"
            )
    if run.tokens is None or not run.performance or len(run.tokens) >= MAX_QUERY_RECORD_ROWS:
        return
    if is_counted_by_usage(run) and len(run.tokens):
        yield from check_stated_range(run, run.tokens)
    recorded = int(run.tokens.tokens.sum())
    if recorded != network.tokens_logged:
        yield run.build_fault(
            f"{recorded} tokens", f"{network.tokens_logged}, as in run.json", file=TOKEN_RECORD_FILE
        )
    seen = int((run.tokens.first_ns > 0).sum())
    if seen != len(run.tokens) * bool(network.streamed):
        yield run.build_fault(
            f"{seen} of {len(run.tokens)} answers with the time of a first token",
            "all if answers were streamed, otherwise none",
            file=TOKEN_RECORD_FILE,
        )


def check_stated_range(run: LoadGenRun, tokens: TokenTimes) -> Iterator[Fault]:
    """Yield logged numbers of tokens that cannot be those of the record, whichever of its answers
    LoadGen logged.
    """
    lines, stated = run.answers.counted_lines, run.answers.stated_tokens
    least, most = (lines * int(each) for each in (tokens.tokens.min(), tokens.tokens.max()))
    if not least <= stated <= most:
        yield run.build_fault(
            f"{stated} tokens in {lines} answers",
            f"{least} to {most}, by {TOKEN_RECORD_FILE}",
            file=ACCURACY_LOG,
        )


@rule("network.usage", LoadGenRun, About.SCORE)
def usage(run: LoadGenRun) -> Iterator[Fault]:
    """run.json's sums of the tokens of prompts, and of those that servers had in a cache, are those
    of usage.npy, which has a row for each answer. No prompt has more tokens in the cache than it
    has.

    Source: house rule; OpenAI, API reference, "The completion usage object".
    Advice: keep usage.npy and run.json of one run together; measure a server whose
    `prompt_tokens_details.cached_tokens` is a part of its `prompt_tokens`.
    """
    network = run.record.network if run.record else None
    if network is None or not run.performance:
        return
    counts = run.usage
    if counts is None:
        stated = (network.prompt_tokens, network.cached_tokens)
        if stated != (None, None) and run.tokens is not None:
            yield run.build_fault("no counts", "those of run.json", file=USAGE_RECORD_FILE)
        return
    if run.tokens is not None and len(counts) != len(run.tokens):
        yield run.build_fault(
            f"{len(counts)} answers",
            f"{len(run.tokens)}, as in {TOKEN_RECORD_FILE}",
            file=USAGE_RECORD_FILE,
        )
    has_prompts = counts.prompt_tokens != NOT_STATED
    excess = int((has_prompts & (counts.cached_tokens > counts.prompt_tokens)).sum())
    if excess:
        yield run.build_fault(
            f"{excess} prompts with more tokens in a cache than they have",
            "at most as many",
            file=USAGE_RECORD_FILE,
        )
    if len(counts) >= MAX_QUERY_RECORD_ROWS:
        return
    for name in USAGE_RECORD_FIELDS:
        found, stated = sum_stated_counts(getattr(counts, name)), getattr(network, name)
        if found != stated:
            yield run.build_fault(
                f"{name} {found}", f"{stated}, as in run.json", file=USAGE_RECORD_FILE
            )


@rule("network.cached", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def cached(run: LoadGenRun) -> Iterator[Fault]:
    """Made or salted prompts, of which no two begin alike, are not in the servers' caches. By the
    servers' own count, at most 64 tokens of a prompt were cached on average, and at most half of
    all: a chat template may begin with as many.

    Source: house rule; a server that has a prompt in its cache does not read it, and the time to
    the first token is that of another load (vllm-project/vllm, "Automatic Prefix Caching").
    Advice: ask other texts with --seed, restart the server, or turn off its prefix cache.
    """
    network = run.record.network if run.record else None
    if run.record is None or network is None or not network.cached_tokens:
        return
    if not has_distinct_prompts(run.record.system):
        return
    answers = run.record.batches.get("count", 0.0) * run.record.batches.get("mean_size", 0.0)
    asked = network.prompt_tokens or 0
    if network.cached_tokens > min(MAX_SHARED_BEGIN * answers, MAX_CACHED_SHARE * asked):
        yield build_record_fault(
            run,
            f"{format_cached_tokens(network.cached_tokens, asked)}, {answers:.0f} prompts",
            f"at most {MAX_SHARED_BEGIN} a prompt, and half of all: no two prompts begin alike",
        )


@rule("network.streams", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def streams(run: LoadGenRun) -> Iterator[Fault]:
    """Streamed answers come token by token: of at most a quarter of them, all tokens came in one
    read of the connection, which leaves no time between them.

    Source: house rule: a server or a proxy that holds tokens back makes the time per token near 0.
    Advice: turn off the buffering of the server or the proxy, and measure with fewer in flight.
    """
    network = run.record.network if run.record else None
    if run.record is None or network is None or not network.streamed:
        return
    answers = run.record.batches.get("count", 0.0) * run.record.batches.get("mean_size", 0.0)
    if not is_streaming_credible(network.answers_in_one_read, answers):
        yield build_record_fault(
            run,
            f"{network.answers_in_one_read} of {answers:.0f} answers with all tokens at once",
            f"at most {MAX_SHARE_IN_ONE_READ:.0%}",
        )


@rule("network.served", LoadGenRun, About.IDENTITY)
def served(run: LoadGenRun) -> Iterator[Fault]:
    """system.json names engine, precision and device of a server that is not podium's only as the
    server or the user states them, and says which of the two. In a study podium may state how it
    started a server on LoadGen's machine. A system without a network has no such statements. An
    older record without statements counts as one of a server that nobody described.

    Source: house rule: podium cannot know what runs behind an address, unless it started it.
    Advice: keep the system.json that podium wrote; state what the server does not say in the table
    [served] of --system-file.
    """
    record = run.record
    if record is None or record.system.served is None:
        return
    stated = record.system.served
    if record.network is None:
        yield build_record_fault(run, "statements of servers", "none: run.json has no network")
    witnesses = set(WITNESSES)
    if run.is_studied and record.network is not None and record.network.loopback:
        witnesses.add(Speaker.PODIUM)
    for name, said in stated.list_statements().items():
        if said.is_known != (said.said_by in witnesses):
            yield build_record_fault(
                run,
                f"{name} {said.value!r} stated by {said.said_by.value or 'nobody'}",
                "a value, and the server or the user who states it; or neither",
            )
    for name in STATED_FIELDS:
        found, wanted = getattr(record.system, name), getattr(stated, name).text
        if found != wanted:
            yield build_record_fault(run, f"{name} {found!r}", f"{wanted!r}, as it was stated")


@rule("network.replicas", LoadGenRun, About.IDENTITY, severity=Severity.WARNING)
def replicas(run: LoadGenRun) -> Iterator[Fault]:
    """One system answers a run: all answers that have a system_fingerprint have the same. At most
    as many answers have one as there are answers.

    Source: house rule: a server whose fingerprint changes was restarted with other settings or
    another version, or replicas that differ answer behind one address.
    Advice: measure one server, or replicas of one configuration; name each with --endpoint.
    """
    network = run.record.network if run.record else None
    if run.record is None or network is None:
        return
    if len(network.fingerprints) > 1:
        yield build_record_fault(run, describe_fingerprints(network.fingerprints), "one of them")
    told, answers = sum(network.fingerprints.values()), run.record.batches.get("count", 0.0)
    if told > answers:
        yield build_record_fault(
            run, f"fingerprints of {told} answers", f"of at most {answers:.0f}"
        )


def describe_fingerprints(fingerprints: Mapping[str, int]) -> str:
    """List the fingerprints of answers, and how many answers have each."""
    counts = sorted(fingerprints.items(), key=lambda each: (-each[1], each[0]))
    return "system_fingerprint " + ", ".join(f"{name} ({count})" for name, count in counts)


@rule("network.restarts", InferenceEntry, About.IDENTITY, severity=Severity.WARNING)
def restarts(entry: InferenceEntry) -> Iterator[Fault]:
    """One system answers all runs of an entry: their answers have the same system_fingerprint.

    Source: house rule, as network.replicas.
    Advice: serve both modes of a scenario with one command, by one server that stays as it is.
    """
    first: str | None = None
    for run in entry.runs:
        network = run.record.network if run.record else None
        if network is None or len(network.fingerprints) != 1:
            continue
        (found,) = network.fingerprints
        first = first or found
        if found != first:
            yield build_record_fault(
                run,
                f"system_fingerprint {found}",
                f"{first}, as in the runs before it",
            )


@rule("network.counters", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def counters(run: LoadGenRun) -> Iterator[Fault]:
    """Servers that publish counters (`/metrics`) count as many generated tokens as LoadGen was
    told, within one per cent. No counter falls during a run. The counters are of the run's servers.

    Source: house rule: a server counts what it generates for all its clients.
    Advice: measure a server that nobody else uses; look into its log for a restart, for requests
    that it answered twice, and for tokens that it generated and did not send.
    """
    network = run.record.network if run.record else None
    if network is None:
        return
    for each in network.counters:
        if each.endpoint not in network.endpoints:
            yield build_record_fault(
                run, f"counters of {each.endpoint}", f"those of {', '.join(network.endpoints)}"
            )
        if fallen := each.list_fallen():
            yield build_record_fault(
                run, f"{', '.join(fallen)} of {each.endpoint} fell", "counters that rise"
            )
    stated = sum_counters(network.counters).get(Counted.GENERATED)
    is_whole = len(network.counters) == len(network.endpoints)
    if stated is not None and is_whole and not is_count_alike(stated, network.tokens_logged):
        yield build_record_fault(
            run,
            f"{stated} generated tokens by the servers' own counters",
            f"{network.tokens_logged}, as LoadGen was told, within {MAX_COUNT_DIFFERENCE:.0%}",
        )


@rule("network.machines", LoadGenRun, About.IDENTITY)
def machines(run: LoadGenRun) -> Iterator[Fault]:
    """In the network division, LoadGen and every server run on different machines, and the servers
    state what they serve. A system behind a network is never in the closed division.

    Source: inference_rules.adoc, Network Division: SUT and LoadGen on separate systems;
    submission_checker: division network and is_network.
    Advice: run podium serve on another machine; a result from two programs on one machine belongs
    to the open division.
    """
    if run.record is None:
        return
    network, division = run.record.network, run.record.system.division
    if network and division == Division.CLOSED:
        yield build_record_fault(
            run, "a network in the closed division", "division network or open"
        )
    if division != Division.NETWORK:
        return
    if network is None:
        yield build_record_fault(
            run, "no network in the network division", "the network between LoadGen and the servers"
        )
    elif not network.is_on_other_machines:
        yield build_record_fault(
            run,
            "LoadGen and a server on one machine, or a server that does not name its machine",
            "another machine for each server",
        )
    elif not network.states_what_it_serves:
        yield build_record_fault(
            run, "a server that does not state what it serves", "a server that names its checkpoint"
        )


@rule("network.described", InferenceEntry, About.IDENTITY)
def described(entry: InferenceEntry) -> Iterator[Fault]:
    """All runs of an entry have the same network, and the system's description states whether there
    is one.

    Source: submission_checker/constants.py, SYSTEM_DESC_IS_NETWORK_MODE; house rule: all runs use
    one system.
    Advice: serve both modes of a scenario with one command, and keep the description that podium
    wrote.
    """
    first = entry.record
    if first is None:
        return
    for run in entry.runs:
        if not run.record:
            continue
        for field in SHARED_NETWORK_FIELDS:
            found = getattr(run.record.network, field, None)
            wanted = getattr(first.network, field, None)
            if found != wanted:
                yield build_record_fault(
                    run,
                    f"network: {field} {found!r}",
                    f"{wanted!r}, as in {entry.runs[0].folder.name}",
                )
    if entry.system and entry.system.description.networked != bool(first.network):
        stated = entry.system.description.is_network
        yield entry.system.build_fault(
            f"is_network {stated!r}",
            "'true'" if first.network else "false: run.json has no network",
        )


@rule("network.fields", SystemFile, About.IDENTITY)
def fields(system: SystemFile) -> Iterator[Fault]:
    """A description in the network division has all thirteen fields of a networked system.

    Source: submission_checker/constants.py, SYSTEM_DESC_REQUIRED_FIELDS_NETWORK_MODE.
    Advice: provide the fields that podium cannot know with --system-file.
    """
    description = system.description
    if description.division != Division.NETWORK:
        return
    if not description.networked:
        yield system.build_fault(
            f"is_network {description.is_network!r} in the network division", "'true'"
        )
    for field in NETWORK_FIELDS:
        if not (getattr(description, field) or "").strip():
            yield system.build_fault(f"{field} {getattr(description, field)!r}", "a value")
