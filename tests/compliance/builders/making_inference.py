"""Makes small inference results as published rounds have them: LoadGen's text logs, an entry, an
organisation; all of it invented.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from suite.files.layout import ACCURACY_LOG, ACCURACY_TEXT, DETAIL_LOG, SUMMARY_LOG
from suite.loadgen.scenario import Scenario

SINGLE, MULTI, SRV, OFF = (
    Scenario.SINGLE_STREAM,
    Scenario.MULTI_STREAM,
    Scenario.SERVER,
    Scenario.OFFLINE,
)
SEEDS: Final = {
    "inference-v0.5": (3133965575612453542, 665484352860916858, 3622009729038561421),
    "inference-v0.7": (12786827339337101903, 12640797754436136668, 3135815929913719677),
}
TEST05_SEEDS: Final = {
    "inference-v0.5": (195, 235, 634),
    "inference-v0.7": (313588358309856706, 471397156132239067, 413914573387865862),
}
REVISION: Final = "33ff466d0a"
LOADGEN_SHA1: Final = "19242fc8e0f9e3eaf8bec9964ba33d760eeade96"
NS: Final = 1_000_000_000
ORG, SYSTEM, MODEL = "acme", "box", "gnmt"
IMPLEMENTATION: Final = "ours"
SAMPLES: Final = 40
"""Of an open result's data set."""
SPELT: Final = {SINGLE: "Single Stream", MULTI: "Multi Stream", SRV: "Server", OFF: "Offline"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One run of LoadGen."""

    scenario: Scenario
    rate: float
    """target_qps."""
    queries: int
    duration_ns: int
    """Scheduled for all queries."""
    span_ms: int
    """From the first query to the last answer."""
    latencies: tuple[int, ...]
    """Lowest, the six percentiles, highest, mean."""
    results: tuple[str, ...] = ()
    """Rates as the summary prints them."""
    per_query: int = 1
    min_queries: int = 1
    asked_queries: int = 1
    """min_query_count as it was asked for."""
    bound_ns: int = 0
    percentile: str = "0.99"
    samples: int = SAMPLES
    loaded: int | None = None
    """Of performance_sample_count; None: all samples."""
    round: str = "inference-v0.5"
    seeds: tuple[int, int, int] | None = None
    """None: the round's."""
    start_s: int = 8 * 3600


LOADS: Final[Mapping[Scenario, Load]] = {
    SINGLE: Load(
        scenario=SINGLE,
        rate=20,
        queries=2401,
        duration_ns=2401 * 50_000_000,
        span_ms=60_040,
        percentile="0.9",
        min_queries=1024,
        asked_queries=1024,
        latencies=(
            40_000_000,
            46_000_000,
            50_000_000,
            51_000_000,
            52_000_000,
            54_000_000,
            60_000_000,
            70_000_000,
            46_200_000,
        ),
        results=("21.62", "21.65"),
    ),
    MULTI: Load(
        scenario=MULTI,
        rate=10,
        queries=90_112,
        duration_ns=90_112 * NS // 10,
        span_ms=9_011_300,
        per_query=8,
        min_queries=90_112,
        asked_queries=90_112,
        latencies=(
            70_000_000,
            80_000_000,
            85_000_000,
            86_000_000,
            87_000_000,
            90_000_000,
            99_000_000,
            120_000_000,
            80_500_000,
        ),
        bound_ns=100_000_000,
        percentile="0.97",
    ),
    SRV: Load(
        scenario=SRV,
        rate=500,
        queries=90_112,
        duration_ns=180_300_000_000,
        span_ms=180_350,
        min_queries=90_112,
        asked_queries=90_112,
        latencies=(
            20_000_000,
            90_000_000,
            120_000_000,
            150_000_000,
            180_000_000,
            230_000_000,
            260_000_000,
            300_000_000,
            88_000_000,
        ),
        bound_ns=250_000_000,
        percentile="0.97",
        results=("499.79", "499.66"),
    ),
    OFF: Load(
        scenario=OFF,
        rate=400,
        queries=1,
        duration_ns=NS // 400,
        span_ms=66_000,
        per_query=26_400,
        asked_queries=24_576,
        percentile="0.9",
        latencies=(
            900_000_000,
            33_000_000_000,
            59_000_000_000,
            62_500_000_000,
            64_000_000_000,
            65_300_000_000,
            65_900_000_000,
            66_000_000_000,
            33_100_000_000,
        ),
        results=("400",),
    ),
}


def stamp(seconds: float) -> str:
    """LoadGen's wall clock."""
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return (
        f"01-15-2020 {whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{thousandths:03d}"
    )


def settings(load: Load, mode: str) -> tuple[list[tuple[str, object]], list[tuple[str, object]]]:
    """What is in effect, and what was asked for."""
    seeds = dict(
        zip(
            ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed"),
            load.seeds or SEEDS[load.round],
            strict=True,
        )
    )
    both = {
        **seeds,
        "accuracy_log_rng_seed": 0,
        "accuracy_log_probability": 0,
        "print_timestamps": "false",
    }
    both |= {
        "performance_issue_unique": "false",
        "performance_issue_same": "false",
        "performance_issue_same_index": 0,
    }
    names = {"Scenario": SPELT[load.scenario], "Test mode": mode}
    effective = {
        **names,
        "samples_per_query": load.per_query,
        "target_qps": f"{load.rate:g}",
        "target_latency (ns)": load.bound_ns,
        "target_latency_percentile": load.percentile,
        "max_async_queries": 1,
        "target_duration (ms)": 60000,
        "min_duration (ms)": 60000,
        "max_duration (ms)": 0,
        "min_query_count": load.min_queries,
        "max_query_count": 0,
        "min_sample_count": load.min_queries * load.per_query,
        **both,
        "performance_sample_count": load.loaded or load.samples,
    }
    own: dict[Scenario, dict[str, object]] = {
        SINGLE: {
            "single_stream_expected_latency_ns": round(NS / load.rate),
            "single_stream_target_latency_percentile": load.percentile,
        },
        MULTI: {
            "multi_stream_target_qps": f"{load.rate:g}",
            "multi_stream_target_latency_ns": load.bound_ns,
            "multi_stream_target_latency_percentile": load.percentile,
            "multi_stream_samples_per_query": load.per_query,
            "multi_stream_max_async_queries": 1,
        },
        SRV: {
            "server_target_qps": f"{load.rate:g}",
            "server_target_latency_ns": load.bound_ns,
            "server_target_latency_percentile": load.percentile,
            "server_max_async_queries": 1,
        },
        OFF: {"offline_expected_qps": f"{load.rate:g}"},
    }
    requested = {
        **names,
        **own[load.scenario],
        "min_duration_ms": 60000,
        "max_duration_ms": 0,
        "min_query_count": load.asked_queries,
        "max_query_count": 0,
        **both,
        "performance_sample_count_override": load.loaded or 0,
    }
    return list(effective.items()), list(requested.items())


def detail(load: Load, mode: str) -> str:
    """LoadGen's detail log."""
    effective, requested = settings(load, mode)
    version = f".5a1 @ {REVISION}" if load.round == "inference-v0.5" else ".5a1 @ 0123456789"
    head = [
        "LoadgenVersionInfo:",
        f"version : {version}",
        "build_date_local : 2020-01-10T10:00:00",
        "git_log :",
    ]
    log = f"\n{REVISION}000000000000000000000000000000 a commit of ours\n\n"
    lines = [f"{at(9)}{text}\n" for text in head]
    lines += [
        log,
        f"{at(9)}git_status :\n",
        "\n\n\n",
        f"{at(9)}SHA1 of files :\n",
        f"\n{LOADGEN_SHA1} /loadgen.cc\n\n",
    ]
    if load.round != "inference-v0.5":
        lines[len(head)] = "\n0123456789000000000000000000000000000000 a commit of ours\n\n"
    about = [
        "Date + time of test:"
        f" 2020-01-15T{load.start_s // 3600:02d}:{load.start_s // 60 % 60:02d}:{load.start_s % 60:02d}Z"
    ]
    about += [
        "System Under Test (SUT) name: Box",
        "Query Sample Library (QSL) name: Data",
        f"QSL total size: {load.samples}",
    ]
    about += [
        f"QSL performance size*: {load.samples}",
        "*Refer to Effective Settings for actual value",
        "",
        "Effective Settings:",
    ]
    about += [
        f"{name} : {value}" if "(" not in name else f"{name}: {value}" for name, value in effective
    ]
    about += ["", "Requested Settings:", *(f"{name} : {value}" for name, value in requested), ""]
    lines += [f"{at(20)}{text}\n" for text in about]
    if mode != "Performance":
        lines += phase(load, "Accuracy", NS // 100)
    if mode != "Accuracy":
        lines += phase(load, "Performance", NS)
    return "".join(lines)


def at(microseconds: float) -> str:
    """What a line begins with."""
    return f'"pid": 7, "tid": 7, "ts": {round(microseconds * 1000)}ns : '


def phase(load: Load, mode: str, begin_ns: int) -> list[str]:
    """The lines of one half of a run."""
    accurate = mode == "Accuracy"
    span_ms = 80 if accurate else load.span_ms
    padding = load.per_query - 1 if load.scenario is MULTI else 0
    order = [place * 17 % load.samples for place in range(load.samples)]
    held = (order * (1 + padding // len(order)))[: len(order) + padding]
    queries = (
        load.queries
        if not accurate
        else 1
        if load.scenario is OFF
        else -(-load.samples // load.per_query)
    )
    duration = load.duration_ns if not accurate else round(queries * NS / load.rate)
    end_ns = begin_ns + span_ms * 1_000_000 + 5_000_000
    texts = [
        (begin_ns - 2000, f"Starting {mode.casefold()} mode:"),
        (begin_ns - 1000, f'Loading QSL : "set" : "[{",".join(map(str, held))}]"'),
        (
            begin_ns,
            (
                f'GeneratedQueries: "queries" : {queries}, "samples per query" : {load.per_query},'
                f' "duration" : {duration}'
            ),
        ),
    ]
    if not accurate and load.scenario in (SINGLE, MULTI):
        texts.append(
            (end_ns - 1000, "Ending naturally: Minimum query count and test duration met.")
        )
    clock = load.start_s + begin_ns / NS
    texts += [
        (end_ns, "Log Contention Counters:"),
        (end_ns, "0 : swap_request_slots_retry_count"),
        (end_ns + 10, f'POWER_BEGIN: "mode" : {mode}, "time" : {stamp(clock)}'),
        (end_ns + 10, f'POWER_END: "mode" : {mode}, "time" : {stamp(clock + span_ms / 1000)}'),
    ]
    return [f"{at(time / 1000)}{text}\n" for time, text in texts]


RULE: Final = "=" * 48
CLOSING: Final = "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"
SHARES: Final = ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90")


def summary(load: Load, mode: str) -> str:
    """LoadGen's summary; that of an accuracy run has no results."""
    if mode == "Accuracy":
        return CLOSING
    low, *places, high, mean = load.latencies
    headline = {
        SINGLE: f"90th percentile latency (ns) : {places[1]}",
        MULTI: f"Samples per query : {load.per_query}",
        SRV: f"Scheduled samples per second : {load.results[0] if load.results else ''}",
        OFF: f"Samples per second: {load.results[0] if load.results else ''}",
    }[load.scenario]
    lines = [
        RULE,
        "MLPerf Results Summary",
        RULE,
        "SUT name : Box",
        f"Scenario : {SPELT[load.scenario]}",
        f"Mode     : {mode}",
        headline,
        "Result is : VALID",
    ]
    if load.scenario in (MULTI, SRV):
        lines.append("  Performance constraints satisfied : Yes")
    lines += [
        "  Min duration satisfied : Yes",
        "  Min queries satisfied : Yes",
        "",
        RULE,
        "Additional Stats",
        RULE,
    ]
    if load.scenario is SINGLE:
        lines += [
            f"QPS w/ loadgen overhead         : {load.results[0]}",
            f"QPS w/o loadgen overhead        : {load.results[1]}",
            "",
        ]
    if load.scenario is SRV:
        lines += [f"Completed samples per second    : {load.results[1]}", ""]
    latencies = [
        f"{share} percentile latency (ns)   : {value}"
        for share, value in zip(SHARES, places, strict=True)
    ]
    if load.scenario is MULTI:
        lines += [
            f'Intervals between each IssueQuery:  "qps" : {load.rate:g}, "ms" :'
            f" {1000 / load.rate:g}"
        ]
        lines += [*(f"{share} percentile : 1" for share in SHARES), ""]
        lines += [
            (
                f'Per-query latency:  "target_ns" : {load.bound_ns}, "target_ms" :'
                f" {load.bound_ns / 1e6:g}"
            ),
            *latencies,
            "",
            "Per-sample latency:",
        ]
    lines += [
        f"Min latency (ns)                : {low}",
        f"Max latency (ns)                : {high}",
        f"Mean latency (ns)               : {mean}",
        *latencies,
    ]
    left = (
        "Scenario",
        "Test mode",
        "target_latency_percentile",
        "target_duration (ms)",
        "min_sample_count",
    )
    lines += ["", RULE, "Test Parameters Used", RULE]
    lines += [
        f"{name}{'' if '(' in name else ' '}: {value}"
        for name, value in settings(load, mode)[0]
        if name not in left
    ]
    return "\n".join(lines) + "\n" + CLOSING


def answers(load: Load, data: Sequence[str] | None = None) -> str:
    """LoadGen's accuracy log of an accuracy run; MultiStream's last query is padded."""
    order = [place * 17 % load.samples for place in range(load.samples)]
    asked = order + order[: -load.samples % load.per_query] if load.scenario is MULTI else order
    rows = [
        f'{{ "seq_id" : {place}, "qsl_idx" : {sample}, "data" :'
        f' "{data[sample] if data else "4A61"}" }}'
        for place, sample in enumerate(asked)
    ]
    return "[\n" + ",\n".join(rows) + "\n]\n"


def write_run(
    folder: Path, load: Load, mode: str = "Performance", data: Sequence[str] | None = None
) -> Path:
    """One LoadGen run."""
    folder.mkdir(parents=True)
    (folder / DETAIL_LOG).write_text(detail(load, mode))
    (folder / SUMMARY_LOG).write_text(summary(load, mode))
    (folder / ACCURACY_LOG).write_text("[\n]\n" if mode == "Performance" else answers(load, data))
    return folder


DESCRIPTION: Final = {
    "division": "open",
    "submitter": ORG,
    "status": "available",
    "system_name": "A box",
    "number_of_nodes": 1,
    "host_processor_model_name": "Example 9000",
    "host_processors_per_node": 2,
    "host_processor_core_count": 16,
    "host_memory_capacity": "64GB",
    "host_storage_capacity": "1TB",
    "host_storage_type": "SSD",
    "accelerators_per_node": 0,
    "accelerator_model_name": "none",
    "accelerator_memory_capacity": "none",
    "framework": "ours 1.0",
    "operating_system": "Example OS",
    "other_software_stack": "none",
}
MEASUREMENTS: Final = {
    "input_data_types": "fp32",
    "retraining": "no",
    "starting_weights_filename": "weights.bin",
    "weight_data_types": "int8",
    "weight_transformations": "quantization",
}


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=4) + "\n")


def write_entry(
    root: Path,
    load: Load,
    *,
    division: str = "open",
    model: str = MODEL,
    claim: str = "BLEU: 23.8",
    data: Sequence[str] | None = None,
    hashed: bool = False,
) -> Path:
    """An organisation with one system and one entry; give its folder."""
    home = root / division / ORG
    entry = home / "results" / SYSTEM / model / load.scenario.folder
    write_run(entry / "accuracy", replace(load, start_s=load.start_s - 3600), "Accuracy", data)
    (entry / "accuracy" / ACCURACY_TEXT).write_text(
        claim + "\n" + ("hash=" + "0123456789abcdef" * 4 + "\n" if hashed else "")
    )
    runs = 5 if load.scenario is SRV else 1
    for number in range(1, runs + 1):
        low, *others = load.latencies
        one = replace(load, start_s=load.start_s + 1800 * number, latencies=(low - number, *others))
        write_run(entry / "performance" / f"run_{number}", one)
    write_filed(home, division, model, load)
    return entry


def write_filed(home: Path, division: str, model: str, load: Load) -> None:
    """What is filed with an entry: system, measurements, code, a compliance test."""
    more = {"system_type": "edge"} if load.round == "inference-v0.7" else {}
    write_json(home / "systems" / f"{SYSTEM}.json", {**DESCRIPTION, "division": division, **more})
    folder = home / "measurements" / SYSTEM / model / load.scenario.folder
    write_json(folder / f"{SYSTEM}_{IMPLEMENTATION}_{load.scenario.folder}.json", MEASUREMENTS)
    (folder / "README.md").write_text("How to run it.\n")
    (folder / "mlperf.conf").write_text(
        f"# all of them\n*.{load.scenario.folder}.min_duration = 60000\n"
    )
    (folder / "user.conf").write_text(
        f"{model}.{load.scenario.folder}.target_qps = {load.rate:g}\n"
    )
    code = home / "code" / model / IMPLEMENTATION
    code.mkdir(parents=True, exist_ok=True)
    (code / ".keep").touch()
    audit = (
        home
        / ("audit" if load.round == "inference-v0.5" else "compliance")
        / SYSTEM
        / model
        / load.scenario.folder
        / "TEST05"
    )
    write_run(
        audit / "performance" / "run_1",
        replace(load, start_s=load.start_s + 20_000, seeds=TEST05_SEEDS[load.round]),
    )
    score = load.results[0] if load.results else str(load.per_query)
    score = str(load.latencies[2]) if load.scenario is SINGLE else score
    (audit / "verify_performance.txt").write_text(
        f"Verifying performance.\nreference score = {score}\ntest score = {score}\nTEST PASS\n"
    )
