"""Makes small results that the judge accepts, from code: a training log, a LoadGen run of each
scenario, an entry, a tree.

LoadGen's files have its form and its arithmetic, on latencies that a formula gives; keys that no
rule reads are left out.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from making_tokens import (
    LOGGED_SHARES,
    issued_ms,
    token_fields,
    token_headline,
    token_latencies,
    token_parameters,
    token_results,
    token_settings,
    token_statistics,
    write_token_records,
)

from compliance.loadgen_replay import ReplayPlan, take_first_values
from suite import registry
from suite.files.json_files import write_json
from suite.files.layout import (
    ACCURACY_LOG,
    DETAIL_LOG,
    SUMMARY_LOG,
    ResultsEntry,
    compute_bound_seed,
    compute_file_sha256,
    compute_folder_sha256,
    locate_checkpoint_folder,
)
from suite.loadgen import early_stopping
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.scenario import Scenario
from suite.records import (
    CheckpointRecord,
    RunRecord,
    SystemUnderTest,
    locate_system_folder,
    write_record,
    write_system_record,
)
from suite.rounds import Benchmark, ScenarioRow
from suite.rounds.settings import resolve_settings
from suite.terms import Division, Profile

ROUND = registry.load_round("podium-v1")
WORKLOAD = "resnet50"
ROW = ROUND.benchmark(WORKLOAD)
NONCE = "0123456789abcdef" * 2
VERSION = "0.1.0"
"""Of a podium that wrote no record beside a run, and no ledger; `written_by` writes as another."""
SHA256 = "5a" * 32
ORG, TRAINER, SERVER = "acme", "box-torch-bf16", "box-torch-fp32"
START_MS = 1_700_000_000_250
SAMPLES = ROW.inference[Profile.SMOKE].accuracy_samples or 0
LABELS = [sample // 84 for sample in range(SAMPLES)]
"""Those of the embedded data."""
ANSWERS = [label if sample % 8 else (label + 1) % 12 for sample, label in enumerate(LABELS)]
"""Seven of eight are right."""
TOP1 = 0.875
SCORES = (0.375, 0.5, 0.875)
"""Those of ResNet-50's run of profile smoke, in as few epochs as its row allows."""


def write_labels(folder: Path) -> None:
    """ResNet-50's truth."""
    (folder / "labels.txt").write_text("".join(f"{label}\n" for label in LABELS))


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The workload that a result is of, and how its network answers."""

    workload: str
    metric: str
    served: float
    """The score of the answers."""
    answers: Sequence[bytes] = field(hash=False)
    write_truth: Callable[[Path], None]
    others: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Further scores of the answers, in the order in which they are written."""
    trained: Sequence[float] = SCORES
    """What the evaluations of a training give."""

    @property
    def row(self) -> Benchmark:
        return ROUND.benchmark(self.workload)

    @property
    def scores(self) -> dict[str, float]:
        """All scores of the answers."""
        return {self.metric: self.served, **self.others}

    @property
    def reference(self) -> dict[str, float]:
        """Those that a served result is held to."""
        return {name: self.scores[name] for name in self.row.served_metrics or (self.metric,)}


RESNET50 = Subject(
    workload=WORKLOAD,
    metric="top1",
    served=TOP1,
    answers=[answer.to_bytes(4, "little") for answer in ANSWERS],
    write_truth=write_labels,
)
INTERVALS = {"start": "INTERVAL_START", "stop": "INTERVAL_END"}


@dataclass(frozen=True)
class Event:
    """One line of a log, to be."""

    key: str
    value: Any = None
    metadata: Mapping[str, Any] | None = None
    after_ms: int = 10
    """Milliseconds after the event before."""


def line(
    key: str,
    value: Any,
    time_ms: float,
    metadata: Mapping[str, Any],
    event_type: str = "POINT_IN_TIME",
) -> str:
    document = {
        "time_ms": time_ms,
        "event_type": event_type,
        "key": key,
        "value": value,
        "metadata": dict(metadata),
    }
    return ":::MLLOG " + json.dumps(document) + "\n"


def stamps(index: int, profile: Profile, system: str, subject: Subject) -> dict[str, Any]:
    division = subject.row.training[profile].division
    return {
        "submission_benchmark": subject.row.training_name,
        "submission_org": ORG,
        "submission_division": division.value,
        "submission_status": "onprem" if profile is Profile.FULL else "research",
        "submission_platform": system,
        "podium_round": ROUND.name,
        "podium_profile": profile.value,
        "podium_workload": subject.workload,
        "podium_version": VERSION,
        "campaign_nonce": NONCE,
        "run_index": index,
        "seed": 100 + index,
        "framework": "torch",
        "input_pipeline": "default",
        "device": "cpu",
        "precision": "bf16",
        "threads": 2,
        "world_size": 1,
        "settings": settings(profile, subject),
        "command_line": commanded("train", profile, subject),
    }


def commanded(command: str, profile: Profile, subject: Subject) -> list[str]:
    """The command line of a run; smoke is what no option asks for."""
    return [
        "podium",
        command,
        subject.workload,
        *(() if profile is Profile.SMOKE else ("--profile", profile.value)),
    ]


def settings(profile: Profile, subject: Subject = RESNET50) -> dict[str, Any]:
    """The settings without those that no rule looks at."""
    found, row = resolve_settings(ROUND, subject.workload, profile, {}), subject.row
    keep = {key for key in found if row.settings.get(key) and row.settings[key].log} | {
        "data.shuffle_labels",
        *row.training[profile].settings,
    }
    keep |= {constraint.key for constraint in row.training[profile].constraints}
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in found.items()
        if key in keep
    }


RISING = (0.3, 0.4, 0.5, 0.55, 0.6, 0.65)
"""What ResNet-50's evaluations may give before the one that reaches the target: in profile full
none does in its first 24 epochs.
"""


def training_events(
    index: int = 0,
    profile: Profile = Profile.SMOKE,
    system: str = TRAINER,
    scores: Sequence[float] | None = None,
    every: int | None = None,
    subject: Subject = RESNET50,
) -> list[Event]:
    """A run that reaches its target in its last evaluation."""
    row, scores = subject.row.training[profile], scores or subject.trained
    events = [Event(key, value) for key, value in stamps(index, profile, system, subject).items()]
    events += [
        (
            Event("cache_clear", True)
            if profile is Profile.FULL
            else Event("cache_clear", None, {"reason": "not asked for"})
        ),
        Event("init_start"),
    ]
    hyper = registry.load_workload(subject.workload).select_hyperparameters(
        ROUND, resolve_settings(ROUND, subject.workload, profile, {})
    )
    events += [Event(key, value) for key, value in hyper.items()]
    sizes = {
        "train_samples": 1,
        "eval_samples": 1,
        **{key: fewest for key, (fewest, _) in row.collect_sample_limits().items()},
    }
    events += [
        *(Event(key, size) for key, size in sizes.items()),
        Event("metric_signature", "top-1"),
    ]
    events += [Event("quality_target", dict(row.target))]
    events += [Event("init_stop"), Event("run_start", after_ms=2000 + index)]
    every = every or row.evaluate_every_epochs
    for block, score in enumerate(scores):
        told = block_events(1 + block * every, every, score, row.train_samples or 0)
        events += (
            count_samples(told, row.train_samples or 0) if subject.row.counts_samples else told
        )
    events += [Event("run_stop", None, {"status": "success"}), Event("checkpoint_sha256", SHA256)]
    reference = {subject.metric: scores[-1]} if profile is Profile.FULL else subject.reference
    return [*events, Event("reference_accuracy", reference, {"checkpoint_sha256": SHA256})]


def block_events(first: int, count: int, score: float, samples: int) -> list[Event]:
    events = [Event("block_start", None, {"first_epoch_num": first, "epoch_count": count})]
    for epoch in range(first, first + count):
        events += [
            Event("epoch_start", None, {"epoch_num": epoch}),
            Event("epoch_stop", None, {"epoch_num": epoch}, 9000),
        ]
        events += [
            Event(
                "tracked_stats",
                {"throughput": round(samples / 9.005, 1), "loss": loss_of(epoch)},
                {"epoch_num": epoch},
            )
        ]
    events += [
        Event("block_stop", None, {"first_epoch_num": first}),
        Event("eval_start", None, {"epoch_num": first + count - 1}),
    ]
    return events + [
        Event("eval_accuracy", score, {"epoch_num": first + count - 1}, 900),
        Event("eval_stop", None, {"epoch_num": first + count - 1}),
    ]


COUNTED = ("block_start", "block_stop", "eval_start", "eval_accuracy", "eval_stop")
"""Events that state how many samples were trained on, where the row counts them."""


def count_samples(block: Sequence[Event], samples: int) -> list[Event]:
    """The events of a block with the samples that were trained on before each."""
    told = [dict(event.metadata or {}) for event in block]
    last = max(each.get("epoch_num", 0) for each in told)
    before = told[0]["first_epoch_num"] - 1
    return [
        replace(
            event,
            metadata={
                **each,
                "samples_count": samples * (before if event.key == "block_start" else last),
            },
        )
        if event.key in COUNTED
        else event
        for event, each in zip(block, told, strict=True)
    ]


def loss_of(epoch: int) -> float:
    """A loss that falls from epoch to epoch."""
    return round(1.26 - 0.01 * epoch, 2)


def written(events: Sequence[Event], start_ms: int = START_MS) -> str:
    """Lines with rising times."""
    text, time_ms = "", start_ms
    for event in events:
        time_ms += event.after_ms
        kind = INTERVALS.get(event.key.rpartition("_")[2], "POINT_IN_TIME")
        text += line(event.key, event.value, time_ms, event.metadata or {}, kind)
    return text


def write_log(path: Path, events: Sequence[Event], start_ms: int = START_MS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(written(events, start_ms))
    return path


def changed(events: Sequence[Event], key: str, **changes: Any) -> list[Event]:
    """The same events with the last of a key changed."""
    at = max(place for place, event in enumerate(events) if event.key == key)
    return [*events[:at], replace(events[at], **changes), *events[at + 1 :]]


def without(events: Sequence[Event], key: str) -> list[Event]:
    """The same events without the last of a key."""
    at = max(place for place, event in enumerate(events) if event.key == key)
    return [*events[:at], *events[at + 1 :]]


# ---- LoadGen ----


@dataclass(frozen=True, kw_only=True)
class Load:
    """What a LoadGen run measures: queries with latencies that rise evenly."""

    scenario: Scenario
    queries: int
    """As many as were issued."""
    rate: float
    """effective_target_qps."""
    lowest_ns: int
    step_ns: int
    samples_per_query: int = 1
    subject: Subject = RESNET50
    special: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Other settings than the round's, as a compliance test has them."""
    begin_ms: float | None = None
    """When it begins; None: as its scenario's performance run."""

    @property
    def row(self) -> ScenarioRow:
        return self.subject.row.inference[Profile.SMOKE].scenarios[self.scenario]

    @property
    def samples(self) -> int:
        return len(self.subject.answers)

    @property
    def measures_tokens(self) -> bool:
        """Whether LoadGen measures first and further tokens."""
        return self.row.token_latencies

    @property
    def latencies(self) -> list[int]:
        return [self.lowest_ns + place * self.step_ns for place in range(self.queries)]

    @property
    def planned(self) -> int:
        """Samples that LoadGen plans for."""
        per_query = 1 if self.scenario is Scenario.OFFLINE else self.samples_per_query
        least = (
            1 if self.scenario is Scenario.OFFLINE else self.row.min_queries
        ) * self.samples_per_query
        return max(int(self.rate * self.row.min_duration_ms / 1000) * per_query, least)

    @property
    def seeds(self) -> dict[str, int]:
        """The seeds that LoadGen is given."""
        names = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
        own = {
            **{name: getattr(ROUND.loadgen, name) for name in names},
            "accuracy_log_rng_seed": compute_bound_seed(NONCE, SHA256),
        }
        return {name: self.special.get(name, value) for name, value in own.items()}

    def plan(self, performance: bool) -> ReplayPlan:
        """What LoadGen draws, with as many queries as it generates."""
        rules, offline = self.seeds, self.scenario is Scenario.OFFLINE
        draft = ReplayPlan(
            scenario=self.scenario,
            performance=performance,
            samples=self.samples,
            samples_in_memory=self.samples,
            per_query=self.samples_per_query,
            queries=1,
            least_queries=1 if offline else self.row.min_queries,
            rate=self.rate,
            duration_ms=0.0 if offline else float(self.row.min_duration_ms),
            qsl_seed=rules["qsl_rng_seed"],
            sample_seed=rules["sample_index_rng_seed"],
            schedule_seed=rules["schedule_rng_seed"],
            log_seed=rules["accuracy_log_rng_seed"],
        )
        return replace(draft, queries=generated(draft))

    def issued(self) -> list[int]:
        """The sample of each answer of a performance run."""
        plan = self.plan(performance=True)
        return take_first_values(
            plan.replay_issued_samples(plan.replay_loaded_sets()),
            self.queries * self.samples_per_query,
        )

    def answered(self) -> list[tuple[int, int]]:
        """Number and sample of each answer that a performance run logs."""
        plan, share = (
            self.plan(performance=True),
            self.special.get("accuracy_log_sampling_target", ROUND.loadgen.sampled_answers)
            / self.planned,
        )
        issued = self.issued()
        if self.special.get("performance_issue_same"):
            issued = [
                plan.replay_loaded_sets()[0][self.special["performance_issue_same_index"]]
            ] * len(issued)
        return [
            (number, issued[number])
            for number, chance in enumerate(plan.replay_log_chances(len(issued)))
            if chance <= share
        ]


@lru_cache
def generated(draft: ReplayPlan) -> int:
    """How many queries LoadGen generates; the same few loads are asked for thousands of times."""
    due, until = draft.replay_due_ns(), draft.compute_generation_end_ns()
    count, last = 0, -1
    while last < until or count < draft.least_queries:
        count, last = count + 1, next(due)
    return count


@lru_cache
def due_ns(plan: ReplayPlan, number: int) -> int:
    """When that query is due."""
    return take_first_values(plan.replay_due_ns(), number + 1)[-1]


LOADS = {
    Scenario.SINGLE_STREAM: Load(
        scenario=Scenario.SINGLE_STREAM,
        queries=700,
        rate=2000.0,
        lowest_ns=7_000_000,
        step_ns=4_000,
    ),
    Scenario.MULTI_STREAM: Load(
        scenario=Scenario.MULTI_STREAM,
        queries=700,
        rate=500.0,
        lowest_ns=7_000_000,
        step_ns=4_000,
        samples_per_query=8,
    ),
    Scenario.SERVER: Load(
        scenario=Scenario.SERVER, queries=459, rate=83.0, lowest_ns=6_000_000, step_ns=20_000
    ),
    Scenario.OFFLINE: Load(
        scenario=Scenario.OFFLINE,
        queries=1,
        rate=4.0,
        lowest_ns=5_500_000_000,
        step_ns=0,
        samples_per_query=22,
    ),
}


def load_of(scenario: Scenario, subject: Subject) -> Load:
    """The load of a workload; Server's queries are those that its row makes LoadGen generate."""
    load = replace(LOADS[scenario], subject=subject)
    if scenario is not Scenario.SERVER or subject is RESNET50:
        return load
    return replace(load, queries=load.plan(performance=True).queries)


def span_of(load: Load) -> float:
    """Milliseconds from the first query to the last answer; in the streams a hundredth more than
    all latencies together.
    """
    if load.scenario is Scenario.SERVER:
        return (due_ns(load.plan(performance=True), load.queries - 1) + load.latencies[-1]) / 1e6
    return sum(load.latencies) / 1e6 * (1.0 if load.scenario is Scenario.OFFLINE else 1.01)


def detail(load: Load, mode: str) -> Iterator[tuple[str, Any, float]]:
    """Yield key, value and time of the detail log."""
    performance = mode == "performance"
    begin = (BEGIN_MS[load.scenario] if load.begin_ms is None else load.begin_ms) + (
        0 if performance else ACCURACY_MS
    )
    yield "test_datetime", tested(begin), 0.1
    yield from ((key, value, 0.1) for key, value in opening(load, performance).items())
    span_ms, plan = span_of(load), load.plan(performance)
    issued = (plan.queries, load.samples_per_query) if performance else covering(load)
    for key, value in (
        ("loaded_qsl_set", plan.replay_loaded_sets()[0]),
        ("generated_query_count", issued[0]),
        ("generated_samples_per_query", issued[1]),
        ("generated_query_duration", due_ns(plan, issued[0])),
    ):
        yield key, value, 0.2
    yield "power_begin", wall(begin), span_ms + 19.0
    yield "power_end", wall(begin + span_ms), span_ms + 19.0
    yield from (
        ((key, value, span_ms + 20.0) for key, value in results(load, span_ms).items())
        if performance
        else ()
    )


BEGIN_MS = {scenario: 40_000.0 * place for place, scenario in enumerate(Scenario)}
ACCURACY_MS = 20_000.0
"""When each run begins, after the first; no two run at once."""


def covering(load: Load) -> tuple[int, int]:
    """How many queries of how many samples an accuracy run issues."""
    return (
        (1, load.samples)
        if load.scenario is Scenario.OFFLINE
        else (-(-load.samples // load.samples_per_query), load.samples_per_query)
    )


def wall(after_ms: float) -> str:
    """LoadGen's wall-clock stamp, in UTC; the training log ends three quarters of an hour
    before.
    """
    return (datetime(2023, 11, 14, 23, 0, 0) + timedelta(milliseconds=after_ms)).strftime(
        "%m-%d-%Y %H:%M:%S.%f"
    )[:-3]


def tested(after_ms: float) -> str:
    """LoadGen's date of a test, cut to whole seconds."""
    return (datetime(2023, 11, 14, 23, 0, 0) + timedelta(milliseconds=after_ms)).strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )


def opening(load: Load, performance: bool) -> dict[str, Any]:
    """What LoadGen says before it starts."""
    row, sampled = load.row, ROUND.loadgen.sampled_answers if performance else 0
    streams = {Scenario.SINGLE_STREAM: "single_stream", Scenario.MULTI_STREAM: "multi_stream"}
    own: dict[str, Any] = {}
    if load.scenario is Scenario.SERVER:
        own = {
            "server_target_qps": load.rate,
            "server_target_latency_ns": row.bound_ns or 0,
            "server_target_latency_percentile": row.percentile / 100,
        }
        own |= {"server_coalesce_queries": False, "server_max_async_queries": 0}
    elif load.scenario is Scenario.OFFLINE:
        own = {"offline_expected_qps": load.rate}
    else:
        name = streams[load.scenario]
        own = {
            f"{name}_expected_latency_ns": 1e9 / load.rate,
            f"{name}_target_latency_percentile": row.percentile / 100,
        }
        own |= (
            {"multi_stream_samples_per_query": load.samples_per_query}
            if load.scenario is Scenario.MULTI_STREAM
            else {}
        )
    both = {
        "scenario": load.scenario.label,
        "test_mode": "PerformanceOnly" if performance else "AccuracyOnly",
        "min_duration_ms": row.min_duration_ms,
        "max_duration_ms": 0,
        "min_query_count": row.min_queries,
        "max_query_count": 0,
        **load.seeds,
        "accuracy_log_probability": 0,
        "accuracy_log_sampling_target": sampled,
        "print_timestamps": False,
        "performance_issue_unique": False,
        "performance_issue_same": False,
        "performance_issue_same_index": 0,
        "sample_concatenate_permutation": False,
        **load.special,
    }
    requested = {
        **own,
        **both,
        "performance_sample_count_override": 0,
        "accuracy_sample_count_override": 0,
        **(token_settings(load) if load.measures_tokens else {}),
    }
    effective = {
        "samples_per_query": load.samples_per_query,
        "target_qps": load.rate,
        "target_latency_ns": row.bound_ns or 0,
        "target_latency_percentile": 0.99
        if load.scenario is Scenario.OFFLINE
        else row.percentile / 100,
        "target_duration_ms": 0 if load.scenario is Scenario.OFFLINE else row.min_duration_ms,
        "max_async_queries": 0 if load.scenario is Scenario.SERVER else 1,
        **both,
        "min_sample_count": load.samples_per_query * row.min_queries,
        "performance_sample_count": load.samples,
        "accuracy_sample_count": load.samples,
    }
    first = {
        "loadgen_version": "6.0.17 @ d6147c7eb7",
        "loadgen_git_status_message": "",
        "sut_name": "PyFastSUT",
    }
    first |= {
        "qsl_reported_total_count": load.samples,
        "qsl_reported_performance_count": load.samples,
    }
    return {
        **first,
        **{f"requested_{key}": value for key, value in requested.items()},
        **{f"effective_{key}": value for key, value in effective.items()},
    }


def results(load: Load, span_ms: float) -> dict[str, Any]:
    """What LoadGen says when it has ended."""
    latencies, scenario = load.latencies, load.scenario
    mean = sum(latencies) // len(latencies)
    found: dict[str, Any] = {"result_validity": "VALID"}
    if scenario is Scenario.SERVER:
        found |= {"result_perf_constraints_met": True}
    found |= {
        "result_min_duration_met": True,
        "result_min_queries_met": True,
        "early_stopping_met": True,
    }
    found |= {**told_stopping(load), "result_query_count": load.queries}
    if scenario is Scenario.SERVER:
        late = sum(latency > (load.row.bound_ns or 0) for latency in latencies)
        due_ms = span_ms - latencies[-1] / 1e6
        rates = {"scheduled": due_ms, "completed": span_ms}
        found |= {"result_overlatency_query_count": late}
        found |= {
            f"result_{name}_samples_per_sec": float(f"{(load.queries - 1) / ms * 1e3:.6g}")
            for name, ms in rates.items()
        }
    if scenario is Scenario.OFFLINE:
        found |= {
            "result_samples_per_second": float(
                f"{load.samples_per_query / (latencies[0] / 1e9):.6g}"
            )
        }
    if scenario is Scenario.SINGLE_STREAM:
        per_ms = (load.queries - 1) / issued_ms(load, span_ms)
        found |= {"result_qps_with_loadgen_overhead": float(f"{per_ms * 1e3:.6g}")}
        found |= {"result_qps_without_loadgen_overhead": float(f"{1e9 / mean:.6g}")}
    if scenario is Scenario.SINGLE_STREAM:
        found |= {
            "early_stopping_latency_ss": estimate(bounded_latencies(load), load.row.percentile),
            "early_stopping_latency_ms": estimate(bounded_latencies(load), 99.0),
        }
    if scenario is Scenario.MULTI_STREAM:
        found |= {"early_stopping_latency_ms": estimate(latencies, load.row.percentile)}
    if (
        scenario is Scenario.MULTI_STREAM
    ):  # a query ends with its last sample; here the others end after half of its time
        found |= {
            "result_min_query_latency_ns": latencies[0],
            "result_max_query_latency_ns": latencies[-1],
            "result_mean_query_latency_ns": mean,
        }
        found |= percentiles(latencies, "per_query_")
        samples = sorted(
            [latency // 2 for latency in latencies for _ in range(load.samples_per_query - 1)]
            + latencies
        )
        latencies, mean = samples, sum(samples) // len(samples)
    found |= {
        "result_min_latency_ns": latencies[0],
        "result_max_latency_ns": latencies[-1],
        "result_mean_latency_ns": mean,
    }
    found |= percentiles(latencies, "")
    return (
        found
        | (token_results(load, found, span_ms) if load.measures_tokens else {})
        | {"num_errors": 0}
    )


def bounded_latencies(load: Load) -> list[int]:
    """The sorted latencies that early stopping is about: of queries, or of first tokens."""
    return token_latencies(load)["ttft"] if load.measures_tokens else load.latencies


def told_stopping(load: Load) -> dict[str, str]:
    """LoadGen's early-stopping results, as the detail log has them."""
    if not load.measures_tokens:
        return {"early_stopping_result": " ".join(stopping(load, load.latencies))}
    return {
        f"early_stopping_{name}_result": " ".join(stopping(load, values))
        for name, values in token_latencies(load).items()
    }


def estimate(latencies: Sequence[int], percentile: float) -> int:
    """Early stopping's estimate; 0 where there are too few queries."""
    place = early_stopping.estimate_early_stopping(len(latencies), percentile).rank_from_top
    return latencies[-place] if place else 0


def stopping(load: Load, latencies: Sequence[int]) -> list[str]:
    """The lines of LoadGen's early-stopping result."""
    if load.scenario is Scenario.OFFLINE:
        return []
    if load.scenario is Scenario.SERVER:
        return [" * Run successful."]
    proven = early_stopping.estimate_early_stopping(load.queries, load.row.percentile)
    lines = [f" * Processed at least {proven.queries_needed} queries ({load.queries})."]
    lines += [f" * Would discard {(proven.rank_from_top or 1) - 1} highest latency queries."]
    estimates = (
        [load.row.percentile]
        if load.scenario is Scenario.MULTI_STREAM
        else [load.row.percentile, 99.0]
    )
    return lines + [
        f" * Early stopping {percentile}th percentile estimate: {estimate(latencies, percentile)}"
        for percentile in estimates
    ]


def percentiles(latencies: Sequence[int], of: str) -> dict[str, Any]:
    """The percentiles that LoadGen writes, of queries or of samples."""
    return {
        f"result_{share:.2f}_percentile_{of}latency_ns": latencies[
            compute_percentile_index(len(latencies), share)
        ]
        for share in LOGGED_SHARES
    }


def summary(load: Load, facts: Mapping[str, Any]) -> str:
    """LoadGen's summary of a performance run, from the detail log's values."""
    rule = "=" * 48 + "\n"
    percentile = f"{load.row.percentile:.1f}"
    of_query, per_query = (
        ("query_", "per_query_") if load.scenario is Scenario.MULTI_STREAM else ("", "")
    )
    headline = {
        Scenario.SERVER: (
            "Completed samples per second    :"
            f" {facts.get('result_completed_samples_per_sec', 0):.2f}"
        ),
        Scenario.OFFLINE: f"Samples per second: {facts.get('result_samples_per_second', 0):g}",
    }.get(
        load.scenario,
        f"{percentile}th percentile latency (ns) :"
        f" {facts[f'result_{load.row.percentile:.2f}_percentile_{per_query}latency_ns']}",
    )
    text = (
        f"{rule}MLPerf Results Summary\n{rule}SUT name : {facts['sut_name']}\nScenario :"
        f" {load.scenario.label}\nMode     : PerformanceOnly\n"
    )
    text += f"{headline}\n{token_headline(load, facts)}Result is : VALID\n"
    if load.scenario is Scenario.SERVER:
        text += "  Performance constraints satisfied : Yes\n"
    text += (
        "  Min duration satisfied : Yes\n  Min queries satisfied : Yes\n  Early stopping satisfied:"
        " Yes\n"
    )
    text += stopping_text(load)
    text += f"\n{rule}Additional Stats\n{rule}"
    if load.scenario is Scenario.SERVER:
        text += f"Scheduled samples per second : {facts['result_scheduled_samples_per_sec']:.2f}\n"
    if load.scenario is Scenario.SINGLE_STREAM:
        text += (
            f"QPS w/ loadgen overhead         : {facts['result_qps_with_loadgen_overhead']:.2f}\n"
        )
        text += (
            "QPS w/o loadgen overhead        :"
            f" {facts['result_qps_without_loadgen_overhead']:.2f}\n"
        )
    if load.scenario is Scenario.MULTI_STREAM:
        text += "Per-query latency:  \n"
    for name in ("Min", "Max", "Mean"):
        text += (
            f"{name} latency (ns){' ' * 16}:"
            f" {facts[f'result_{name.lower()}_{of_query}latency_ns']}\n"
        )
    for share in ("50.00", "90.00", "95.00", "97.00", "99.00", "99.90"):
        text += (
            f"{share} percentile latency (ns)   :"
            f" {facts[f'result_{share}_percentile_{per_query}latency_ns']}\n"
        )
    text += token_statistics(load, facts)
    return text + f"\n{rule}Test Parameters Used\n{rule}" + parameters(facts) + CLOSING


def stopping_text(load: Load) -> str:
    """The summary's lines about early stopping."""
    titled = {"Early Stopping Result:": load.latencies}
    if load.measures_tokens:
        titled = {
            f"{name.upper()} Early Stopping Result:": values
            for name, values in token_latencies(load).items()
        }
    return "".join(
        f"{line}\n"
        for title, values in titled.items()
        if stopping(load, values)
        for line in (title, *stopping(load, values))
    )


CLOSING = "\nNo warnings encountered during test.\n\nNo errors encountered during test.\n"
NAMES = (
    "samples_per_query",
    "target_qps",
    "target_latency_ns",
    "max_async_queries",
    "min_duration_ms",
    "max_duration_ms",
    "min_query_count",
    "max_query_count",
    "qsl_rng_seed",
    "sample_index_rng_seed",
    "schedule_rng_seed",
    "accuracy_log_rng_seed",
    "accuracy_log_probability",
    "accuracy_log_sampling_target",
    "print_timestamps",
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
    "performance_sample_count",
    "accuracy_sample_count",
)
SPELT = {
    "target_latency_ns": "target_latency (ns)",
    "min_duration_ms": "min_duration (ms)",
    "max_duration_ms": "max_duration (ms)",
}


def parameters(facts: Mapping[str, Any]) -> str:
    """The summary's part about settings."""
    values = {name: facts[f"effective_{name}"] for name in NAMES}
    if facts.get("requested_use_token_latencies"):
        values = token_parameters(facts) | values
        del values["target_latency_ns"]
    return "".join(
        f"{SPELT.get(name, name)} : {f'{value:g}' if isinstance(value, float) else int(value)}\n"
        for name, value in values.items()
    )


def accuracy_log(answered: Sequence[tuple[int, int]], load: Load) -> str:
    """LoadGen's accuracy log, as it writes it, of numbers and samples."""
    answers = load.subject.answers
    rows = [
        f'{{ "seq_id" : {number}, "qsl_idx" : {sample}, "data" :'
        f' "{answers[sample].hex().upper()}"{token_fields(load, answers[sample])} }}'
        for number, sample in answered
    ]
    return "[\n" + ",\n".join(rows) + "\n]\n"


class Written(NamedTuple):
    """What LoadGen writes of a run."""

    facts: Mapping[str, Any]
    """The values of the detail log."""
    detail: str
    summary: str
    accuracy: str


@lru_cache
def of_run(load: Load, mode: str, _nonce: str) -> Written:
    """Write LoadGen's files of a run, whose seeds follow from a nonce; the same few are asked for
    thousands of times.
    """
    lines, performance = list(detail(load, mode)), mode == "performance"
    facts = {key: value for key, value, _ in lines}
    return Written(
        facts=facts,
        detail="".join(line(key, value, round(time, 3), {}) for key, value, time in lines),
        summary=summary(load, facts) if performance else CLOSING,
        accuracy=accuracy_log(
            load.answered() if performance else list(enumerate(order(load))), load
        ),
    )


def write_run(folder: Path, load: Load, mode: str, where: ResultsEntry | None = None) -> Path:
    """One LoadGen run with its record."""
    folder.mkdir(parents=True)
    made = of_run(load, mode, NONCE)
    if load.measures_tokens and mode == "performance":
        write_token_records(folder, load)
    (folder / DETAIL_LOG).write_text(made.detail)
    (folder / SUMMARY_LOG).write_text(made.summary)
    (folder / ACCURACY_LOG).write_text(made.accuracy)
    if mode == "accuracy":
        sha256 = compute_file_sha256(folder / ACCURACY_LOG)
        (folder / "accuracy.txt").write_text(
            "".join(
                f"{metric}={score:.6f}, hash={sha256}\n"
                for metric, score in load.subject.scores.items()
            )
        )
    served = system_under_test(load, where)
    write_system_record(locate_system_folder(folder), served)
    write_record(folder / "run.json", record(load, mode, served))
    return folder


def order(load: Load) -> list[int]:
    """All samples, as an accuracy run issues them; MultiStream's last query is padded."""
    plan = load.plan(performance=False)
    return list(plan.replay_issued_samples(plan.replay_loaded_sets()))


def knob(load: Load) -> dict[str, Any]:
    """The setting that LoadGen's rate comes from."""
    names = {Scenario.SERVER: "server.target_qps", Scenario.OFFLINE: "offline.expected_qps"}
    streams = {
        Scenario.SINGLE_STREAM: "single_stream.expected_latency_us",
        Scenario.MULTI_STREAM: "multi_stream.expected_latency_us",
    }
    return (
        {names[load.scenario]: load.rate}
        if load.scenario in names
        else {streams[load.scenario]: int(1e6 / load.rate)}
    )


def system_under_test(load: Load, where: ResultsEntry | None) -> SystemUnderTest:
    """podium's record of the system that a run is of."""
    return SystemUnderTest(
        workload=load.subject.workload,
        round=ROUND.name,
        profile="smoke",
        division="open",
        org=where.org if where else ORG,
        name=where.system if where else SERVER,
        framework="torch",
        engine="torch",
        engine_package=f"podium-suite {VERSION}, SHA-256 {'5e' * 32}",
        input="default",
        precision="fp32",
        device="cpu",
        threads=2,
        checkpoint_sha256=SHA256,
        nonce=NONCE,
        settings=settings(Profile.SMOKE, load.subject),
        sample_count=load.samples,
        version=VERSION,
    )


def record(load: Load, mode: str, served: SystemUnderTest) -> RunRecord:
    """podium's record of a run."""
    performance = mode == "performance"
    limits = {
        "loadgen.min_duration_ms": load.row.min_duration_ms,
        "loadgen.min_queries": load.row.min_queries,
    }
    samples = load.queries * load.samples_per_query if performance else len(order(load))
    return RunRecord(
        system_sha256=served.compute_digest(),
        changed=knob(load) | limits,
        command=("podium", "infer", load.subject.workload),
        ceiling=90000.0 if performance else None,
        batches={"count": 4.0, "mean_size": samples / 4},
    )


# ---- trees ----


@contextmanager
def written_by(version: str) -> Iterator[None]:
    """Write what follows as that version of podium."""
    global VERSION
    before, VERSION = VERSION, version
    try:
        yield
    finally:
        VERSION = before


def entry_of(root: Path, system: str = SERVER) -> ResultsEntry:
    return ResultsEntry(results=root, division=Division.OPEN, org=ORG, system=system)


def write_entry(
    root: Path, scenario: Scenario = Scenario.SINGLE_STREAM, subject: Subject = RESNET50
) -> Path:
    """One scenario with what belongs to it, but the run set."""
    where, load, name = (
        entry_of(root),
        load_of(scenario, subject),
        subject.row.inference_name,
    )
    write_run(where.locate_accuracy_run(name, scenario), load, "accuracy", where)
    write_run(where.locate_performance_run(name, scenario), load, "performance", where)
    write_truth(where.locate_ground_truth(subject.workload), subject)
    write_json(
        where.locate_measurements_file(name, scenario), measurements(scenario, where, subject)
    )
    write_system(where)
    return where.locate_benchmark(name) / scenario.folder


def write_truth(folder: Path, subject: Subject = RESNET50) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    subject.write_truth(folder)
    return folder


def measurements(
    scenario: Scenario, where: ResultsEntry, subject: Subject = RESNET50
) -> dict[str, Any]:
    return {
        "input_data_types": "fp32",
        "retraining": "no",
        "starting_weights_filename": f"checkpoints/{subject.workload}/{SHA256}",
        "weight_data_types": "fp32",
        "weight_transformations": "none",
        "workload": subject.workload,
        "round": ROUND.name,
        "profile": "smoke",
        "scenario": scenario.label,
        "engine": "torch",
        "precision": "fp32",
        "framework": "torch",
        "device": "cpu",
        "threads": 2,
        "checkpoint_sha256": SHA256,
        "reference_accuracy": subject.reference,
        "truth_sha256": compute_folder_sha256(where.locate_ground_truth(subject.workload)),
        "settings": settings(Profile.SMOKE, subject),
        "engine_description": {subject.workload: {"torch": "2.13.0", "compiled": False}},
    }


def write_system(where: ResultsEntry, profile: str = "smoke") -> Path:
    block = {
        "packages": {"torch": "2.13.0"},
        "git_commit": None,
        "git_dirty": None,
        "cpu_governor": None,
        "cpu_clock_mhz": 2300.0,
        "gpu_clock_mhz": [],
        "python": "3.11.7",
        "round": ROUND.name,
        "profile": profile,
    }
    description = {
        "submitter": where.org,
        "division": where.division.value,
        "status": "research",
        "system_name": where.system,
        "number_of_nodes": 1,
        "host_processors_per_node": 1,
        "host_processor_model_name": "Example 9000",
        "host_processor_core_count": 2,
        "host_memory_capacity": "16.0 GiB",
        "host_storage_type": "SSD",
        "host_storage_capacity": "200 GiB",
        "accelerators_per_node": 0,
        "accelerator_model_name": "N/A",
        "accelerator_memory_configuration": "N/A",
        "accelerator_memory_capacity": "N/A",
        "framework": "torch 2.13.0",
        "other_software_stack": "Python 3.11.7",
        "operating_system": "Example OS",
        "podium": block,
    }
    write_json(where.system_file, description)
    return where.system_file


def write_training(root: Path, subject: Subject = RESNET50) -> Path:
    """A run set of one smoke run, with its system."""
    where = entry_of(root, TRAINER)
    write_system(where)
    return write_log(
        where.locate_training_log(subject.row.training_name, 0), training_events(subject=subject)
    )


def write_checkpoint(root: Path, subject: Subject = RESNET50) -> Path:
    folder = locate_checkpoint_folder(root, subject.workload, SHA256)
    folder.mkdir(parents=True)
    found = CheckpointRecord(
        workload=subject.workload,
        round=ROUND.name,
        profile="smoke",
        framework="torch",
        sha256=SHA256,
        nonce=NONCE,
        seed=100,
        run_index=0,
        training_log=f"open/{ORG}/results/{TRAINER}/{subject.row.training_name}/result_0.txt",
        target_reached=True,
        scores={next(iter(subject.row.metrics)): subject.trained[-1]},
        reference_accuracy=subject.reference,
        settings=settings(Profile.SMOKE, subject),
        version=VERSION,
    )
    write_record(folder / "record.json", found)
    return folder


def write_tree(root: Path, *scenarios: Scenario, subject: Subject = RESNET50) -> Path:
    """A whole campaign."""
    write_training(root, subject)
    for scenario in scenarios or (Scenario.SINGLE_STREAM,):
        write_entry(root, scenario, subject)
    write_checkpoint(root, subject)
    return root


def write_trained(root: Path) -> Path:
    """A campaign that has not served yet."""
    write_training(root)
    write_checkpoint(root)
    return root
