"""Examples of the rules about systems behind a network: Offline, measured over a network between
two machines.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import making
import numpy
from spoiling import MULTI, OFF, PERFORMANCE, Builder, put, run, setting, then
from system_records import put_system

from suite.files.layout import DETAIL_LOG, TOKEN_RECORD_FILE, USAGE_RECORD_FILE
from suite.studies.own_prompts import COUNTER_SETTING
from suite.terms import NETWORK_FIELDS

HOST: Final = "h1:8001"
NETWORK: Final[Mapping[str, Any]] = {
    "endpoints": [f"grpcs://{HOST}"],
    "servers": ["builtin"],
    "nodes": ["h1"],
    "machines": ["1f" * 16],
    "loadgen_machine": "2e" * 16,
    "loopback": False,
    "form": "opaque",
    "model": "resnet50",
    "round_trip_p50_ns": [210000],
    "round_trip_p99_ns": [480000],
    "bytes_out": 1228800,
    "bytes_in": 400,
}
PROMPTS: Final[Mapping[str, Any]] = {
    **NETWORK,
    "endpoints": [f"https://{HOST}"],
    "form": "prompts",
    "api": "chat",
    "targets": [f"https://{HOST}/v1/chat/completions"],
    "tokenizer": "3d" * 32,
    "in_flight": 64,
    "connections": 64,
    "streamed": False,
    "tokens_logged": 8200,
    "tokens_recounted": 8100,
    "answers_differing": 100,
    "answers_in_one_read": None,
    "server": None,
}
KNOWN: Final = dict.fromkeys(NETWORK_FIELDS, "as on the sheet of the NIC") | {"is_network": "true"}
RUNS: Final = "**/run.json"
SYSTEM: Final = f"**/systems/{making.SERVER}.json"


def over_network(path: Path) -> None:
    """Say in a run's record that there was a network, and one request for each sample."""
    document = json.loads(path.read_text())
    counts = document["batches"]
    samples = counts["count"] * counts["mean_size"]
    document |= {"network": dict(NETWORK), "batches": counts | {"count": samples, "mean_size": 1.0}}
    path.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    for log in path.parent.glob("mlperf_log_*.txt"):
        log.write_text(log.read_text().replace("PyFastSUT", f"Network SUT: podium at {HOST}"))


def networked(folder: Path) -> None:
    """A campaign that keeps all rules."""
    making.write_tree(folder, OFF)
    for path in folder.glob(RUNS):
        over_network(path)
    for path in folder.glob(SYSTEM):
        put(**KNOWN)(path)


def prompted(folder: Path) -> None:
    """The same over an OpenAI-compatible API, whose answers were counted."""
    networked(folder)
    for path in folder.glob(RUNS):
        put(network=dict(PROMPTS))(path)


def count_prompts(path: Path) -> None:
    """Write what servers counted of the prompts of a run: 32 tokens each, 16 of them cached."""
    tokens = path.with_name(TOKEN_RECORD_FILE)
    if tokens.exists():
        answers = len(numpy.load(tokens))
    else:
        answers = int(json.loads(path.read_text())["batches"]["count"])
    numpy.save(path.with_name(USAGE_RECORD_FILE), numpy.full((answers, 2), (32, 16), "<i8"))
    put(network__prompt_tokens=32 * answers, network__cached_tokens=16 * answers)(path)


def cached(folder: Path) -> None:
    """The same, whose servers counted the tokens of prompts."""
    prompted(folder)
    for path in folder.glob(PERFORMANCE + "run.json"):
        count_prompts(path)


def stated(folder: Path) -> None:
    """The same, by a server that says what it is, to a client that records who said it."""
    prompted(folder)
    nobody = {"value": "", "said_by": "", "source": ""}
    served = dict.fromkeys(("engine", "version", "precision", "device", "weights"), nobody)
    said = {"engine": "torch", "version": "2.13.0", "precision": "fp32", "device": "cpu"}
    for name, value in said.items():
        served[name] = {"value": value, "said_by": "server", "source": "system_fingerprint"}
    for path in folder.glob("**/system.json"):
        put_system(served=served)(path)
    for path in folder.glob(RUNS):
        counts = json.loads(path.read_text())["batches"]
        told = {"fingerprints": {FINGERPRINT: int(counts["count"])}, "counters": counted(8200)}
        put(**{f"network__{name}": value for name, value in told.items()})(path)


def made_prompts(folder: Path) -> None:
    """The same, whose prompts were made so that no two begin alike."""
    cached(folder)
    for path in folder.glob("**/system.json"):
        settings = json.loads(path.read_text())["settings"]
        put_system(settings=settings | {COUNTER_SETTING: "3d" * 32})(path)
    for path in folder.glob("**/measurements/**/*.json"):
        settings = json.loads(path.read_text())["settings"]
        put(settings=settings | {COUNTER_SETTING: "3d" * 32})(path)


def count_all_cached(path: Path) -> None:
    """All tokens of prompts in a cache, but for one of each."""
    rows = numpy.load(path)
    numpy.save(path, rows * (1, 0) + (0, 31))
    put(network__cached_tokens=31 * len(rows))(path.with_name("run.json"))


def in_division(**fields: Any) -> Builder:
    """A campaign that claims the division network, with other fields of the network."""

    def build(folder: Path) -> None:
        networked(folder)
        for path in folder.glob("**/system.json"):
            put_system(division="network")(path)
        for path in folder.glob(RUNS):
            put(**fields)(path)

    return build


def other_network(path: Path) -> None:
    """Name another server in one of two runs."""
    put(network__nodes=["h2"])(path)


COUNTER: Final = "vllm:generation_tokens_total"


def counted(generated: int) -> list[dict[str, Any]]:
    """The counters of the server around a run that generated so many tokens."""
    before, after = {COUNTER: 1000}, {COUNTER: 1000 + generated}
    return [{"endpoint": f"https://{HOST}", "before": before, "after": after}]


FINGERPRINT: Final = "vllm-0.32.0-8820c290"
BASES: Final[Mapping[str, Builder]] = {
    "networked": networked,
    "prompted": prompted,
    "cached": cached,
    "made-prompts": made_prompts,
    "stated": stated,
}
KINDS: Final = {"network": "networked"}
VALID: Final = {
    "network.prompts": "prompted",
    "network.tokens": "prompted",
    "network.streams": "prompted",
    "network.usage": "cached",
    "network.cached": "made-prompts",
    "network.served": "stated",
    "network.replicas": "stated",
    "network.restarts": "stated",
    "network.counters": "stated",
}
INVALID: Final[Mapping[str, Builder]] = {
    "network.scenario": then(run(MULTI), RUNS, over_network),
    "network.name": then(
        networked, PERFORMANCE + DETAIL_LOG, setting("sut_name", "Network SUT: podium at h2:8001")
    ),
    "network.requests": then(
        networked, PERFORMANCE + "run.json", put(batches__count=4.0, batches__mean_size=4.0)
    ),
    "network.prompts": then(prompted, RUNS, put(network__tokenizer="")),
    "network.tokens": then(
        prompted, PERFORMANCE + "run.json", put(network__tokens_logged=2 * 8200)
    ),
    "network.streams": then(
        prompted,
        PERFORMANCE + "run.json",
        put(network__streamed=True, network__answers_in_one_read=11),
    ),
    "network.cached": then(made_prompts, f"**/{USAGE_RECORD_FILE}", count_all_cached),
    "network.usage": then(cached, PERFORMANCE + "run.json", put(network__cached_tokens=0)),
    "network.served": then(stated, "**/system.json", put_system(precision="fp8")),
    "network.replicas": then(
        stated,
        PERFORMANCE + "run.json",
        put(network__fingerprints={FINGERPRINT: 11, "vllm-0.32.0-1f2e3d4c": 11}),
    ),
    "network.counters": then(
        stated, PERFORMANCE + "run.json", put(network__counters=counted(8400))
    ),
    "network.restarts": then(
        stated,
        PERFORMANCE + "run.json",
        put(network__fingerprints={"vllm-0.32.0-1f2e3d4c": 22}),
    ),
    "network.machines": in_division(network__loadgen_machine="1f" * 16),
    "network.described": then(networked, PERFORMANCE + "run.json", other_network),
    "network.fields": then(networked, SYSTEM, put(division="network", nic_sut=None)),
}
