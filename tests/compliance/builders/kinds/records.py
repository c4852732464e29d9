"""For each rule about the records of a run, its queries and its telemetry, one small run that keeps
it and one that breaks it.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import numpy
from making import LOADS, START_MS, Load, training_events, write_tree
from spoiling import OFF, SINGLE, SRV, Builder, log, run, swap, then

from compliance.loadgen_replay import take_first_values
from suite import events
from suite.files.layout import QUERY_RECORD_FILE, TELEMETRY_FILE
from suite.loadgen.query_record import QUERY_RECORD_FIELDS
from suite.loadgen.scenario import Scenario

BEGIN_NS: Final = 5_000_000_000_000
"""When the runs began, by the monotonic clock ..."""
UTC_NS: Final = 1_700_002_800_000_000_000
"""... and by UTC."""
SECOND_NS: Final = 1_000_000_000
OVERHEAD_NS: Final = 20_000
"""From a query's time in the schedule to its issue."""
QUIET: Final[Mapping[str, Any]] = {
    "cpu_own": 0.93,
    "cpu_others": 0.01,
    "steal": 0.0,
    "psi_some": 0.02,
    "swap_in_bytes": 0,
    "mhz": [2600.0, 2600.0],
    "temp_c": [51.0],
    "rss_mib": 812.5,
    "free_mib": 12288.0,
}
COOL: Final[Mapping[str, Any]] = {
    "util": 0.97,
    "sm_mhz": 1980,
    "mem_mhz": 2619,
    "temp_c": 61,
    "power_w": 402.5,
    "event_reasons": 0,
    "ecc": [0, 0],
}
Host = Callable[[int], Mapping[str, Any]]


def table(load: Load) -> Any:
    """When the queries of a run were issued and completed, as LoadGen's figures have it."""
    latencies, count = load.latencies, load.queries
    if load.scenario is OFF:
        rows = [
            (BEGIN_NS, BEGIN_NS + (chunk + 1) * latencies[0] // 4, chunk, samples)
            for chunk, samples in enumerate((6, 6, 6, 4))
        ]
        return numpy.array(rows, list(QUERY_RECORD_FIELDS))
    order = (
        [latencies[place * 257 % count] for place in range(count)]
        if load.scenario is SRV
        else latencies
    )
    due = (
        take_first_values(load.plan(performance=True).replay_due_ns(), count)
        if load.scenario is SRV
        else [sum(order[:place]) for place in range(count)]
    )
    rows = [
        (
            BEGIN_NS + at + OVERHEAD_NS,
            BEGIN_NS + at + order[place],
            place * 4 // count,
            load.samples_per_query,
        )
        for place, at in enumerate(due)
    ]
    return numpy.array(rows, list(QUERY_RECORD_FIELDS))


def telemetry(
    begin_ns: int,
    utc_ns: int,
    seconds: int,
    host: Host = lambda second: {},
    gpu: Host | None = None,
    governor: str | None = None,
) -> str:
    """A sampler's file: a state of the host each second, and of a GPU where one is asked for."""
    channels: list[dict[str, Any]] = [
        {"id": 0, "name": "host", "kind": "state", "cores": 2, "governor": governor}
    ]
    channels += (
        [{"id": 1, "name": "gpu0", "kind": "state", "model": "NVIDIA H100", "uuid": "GPU-0"}]
        if gpu
        else []
    )
    lines: list[dict[str, Any]] = [
        {"telemetry": 1, "channels": channels, "clocks_ns": [begin_ns, utc_ns]}
    ]
    for second in range(1, seconds + 1):
        lines.append({"t": begin_ns + second * SECOND_NS, "host": {**QUIET, **host(second)}})
        lines += (
            [{"t": begin_ns + second * SECOND_NS + 1000, "gpu0": {**COOL, **gpu(second)}}]
            if gpu
            else []
        )
    end_ns = begin_ns + (seconds + 1) * SECOND_NS
    counts = {
        "readings": [seconds] * len(channels),
        "missed": [0] * len(channels),
        "late": 0,
        "longest_gap_ms": 1000,
        "cpu_ms": 4 * seconds,
    }
    lines.append({"end": {**counts, "clocks_ns": [end_ns, utc_ns + end_ns - begin_ns]}})
    return "".join(json.dumps(each, separators=(",", ":")) + "\n" for each in lines)


def recorded(scenario: Scenario = SRV, **sampled: Any) -> Builder:
    """A performance run with both records: sampling begins two seconds before it, and ends after
    it.
    """

    def build(folder: Path) -> None:
        run(scenario)(folder)
        (place,) = folder.glob("*/performance/run_1")
        add_run_records(place, LOADS[scenario], **sampled)

    return build


def add_run_records(place: Path, load: Load, **sampled: Any) -> None:
    """Write the records of a performance run into its folder."""
    rows = table(load)
    numpy.save(place / QUERY_RECORD_FILE, rows)
    seconds = 4 + int(rows["done_ns"].max() - BEGIN_NS) // SECOND_NS
    (place / TELEMETRY_FILE).write_text(
        telemetry(BEGIN_NS - 2 * SECOND_NS, UTC_NS, seconds, **sampled)
    )


def observed(linger_s: int = 0, **sampled: Any) -> Builder:
    """A training log with the telemetry of its run, and of some seconds more."""

    def build(folder: Path) -> None:
        log(training_events())(folder)
        add_training_telemetry(folder / "result_0.txt", linger_s, **sampled)

    return build


def add_training_telemetry(log: Path, linger_s: int = 0, **sampled: Any) -> None:
    """Write the telemetry of a training run beside its log, from its first line to its clock's
    end or some seconds longer.
    """
    lines = [json.loads(text[9:]) for text in log.read_text().splitlines()]
    (stop_ms,) = (line["time_ms"] for line in lines if line["key"] == events.RUN_STOP)
    begin_ms = lines[0]["time_ms"] - 1
    begin_ns = (begin_ms - START_MS + 10**6) * 10**6
    seconds = (stop_ms - begin_ms) // 1000 + linger_s
    text = telemetry(begin_ns, begin_ms * 10**6, seconds, **sampled)
    log.with_name("telemetry_0.jsonl").write_text(text)


def longer(folder: Path) -> None:
    """A training log with telemetry that went on for two minutes after its clock."""
    observed()(folder)
    path = folder / "telemetry_0.jsonl"
    begin_ns, utc_ns = json.loads(path.read_text().splitlines()[0])["clocks_ns"]
    seconds = path.read_text().count('"host":') + 120
    path.write_text(telemetry(begin_ns, utc_ns, seconds))


def hosted(free_mib: float) -> Builder:
    """A tree whose performance runs saw so much memory free; 16 GiB are described."""

    def build(folder: Path) -> None:
        write_tree(folder)
        for place in folder.glob("**/performance/run_1"):
            (place / TELEMETRY_FILE).write_text(
                telemetry(BEGIN_NS, UTC_NS, 6, host=lambda second: {"free_mib": free_mib})
            )

    return build


def rows(change: Callable[[Any], None], scenario: Scenario = SRV) -> Builder:
    """A run whose queries are changed."""

    def edit(path: Path) -> None:
        table = numpy.load(path)
        change(table)
        numpy.save(path, table)

    return then(recorded(scenario), f"**/{QUERY_RECORD_FILE}", edit)


def early(table: Any) -> None:
    """A query done before it was issued."""
    table["done_ns"][7] = table["issued_ns"][7] - 1


def doubled(table: Any) -> None:
    """Twice the samples."""
    table["samples"] *= 2


def uniform(table: Any) -> None:
    """Arrivals at equal distances, with the latencies that they had."""
    late = (
        numpy.linspace(table["issued_ns"][0], table["issued_ns"][-1], len(table)).astype("i8")
        - table["issued_ns"]
    )
    table["issued_ns"] += late
    table["done_ns"] += late


def later(table: Any) -> None:
    """Every completion 30 ms later."""
    table["done_ns"] += 30_000_000


RECORD_BASES: Final[Mapping[str, Builder]] = {
    "recorded": recorded(),
    "recorded-offline": recorded(OFF),
    "recorded-gpu": recorded(gpu=lambda second: {}, governor="performance"),
    "observed": observed(),
}
RECORD_KINDS: Final = {"queries": "recorded", "telemetry": "observed", "noise": "recorded"}
RECORD_VALID: Final[Mapping[str, str | Builder]] = {
    "tree.host": hosted(12_288.0),
    "queries.times": "recorded-offline",
    "noise.throttle": "recorded-gpu",
    "noise.clock": "recorded-gpu",
    "noise.governor": "recorded-gpu",
}
RECORD_INVALID: Final[Mapping[str, Builder]] = {
    "queries.times": rows(early),
    "queries.count": rows(doubled, OFF),
    "queries.arrivals": rows(uniform),
    "queries.latencies": rows(later, SINGLE),
    "telemetry.time": then(
        recorded(), f"**/{TELEMETRY_FILE}", swap('"t":5000000000000', '"t":4998500000000')
    ),
    "telemetry.whole": then(recorded(), f"**/{TELEMETRY_FILE}", swap(r'\{"end".*\n', "")),
    "telemetry.window": then(
        recorded(),
        f"**/{TELEMETRY_FILE}",
        swap(r'"clocks_ns":\[4998000000000', '"clocks_ns":[5001000000000'),
    ),
    "telemetry.outside": longer,
    "tree.host": hosted(20_480.0),
    "noise.others": recorded(host=lambda second: {"cpu_own": 0.5, "cpu_others": 0.46}),
    "noise.steal": recorded(host=lambda second: {"steal": 0.03}),
    "noise.trend": recorded(SINGLE),
    "noise.throttle": recorded(gpu=lambda second: {"event_reasons": 0x40 if second == 5 else 0}),
    "noise.clock": observed(gpu=lambda second: {"sm_mhz": 1980 if second < 10 else 1455}),
    "noise.swap": recorded(host=lambda second: {"swap_in_bytes": 8192 if second == 4 else 0}),
    "noise.governor": recorded(governor="powersave"),
}
