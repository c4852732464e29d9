"""For each rule about the Endpoints client's results one small result that keeps it and one that
breaks it. The runs are simulated: requests with drawn gaps and latencies, and the files that the
client writes of them.

Source: mlcommons/endpoints, metrics and load generator.
"""

import json
import math
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from spoiling import Builder

MS: Final = 1_000_000
PERCENTS: Final = (99.9, 99.0, 97.0, 95.0, 90.0, 80.0, 75.0, 50.0, 25.0, 10.0, 5.0, 1.0)
FLOORS: Final = {50.0: 11, 75.0: 24, 80.0: 31, 90.0: 64, 95.0: 130, 97.0: 219, 99.0: 662}
"""Fewest samples of which early stopping proves a percentile."""
ROUND_SEEDS: Final = {
    "scheduler_random_seed": 16159082839903944936,
    "dataloader_random_seed": 2747215439041700203,
}
SUMMARY: Final = "performance/result_summary.json"
SNAPSHOT: Final = "metrics/final_snapshot.json"
ACCURACY: Final = "accuracy/accuracy_results.json"
ENTRY: Final = "inference_v6.1/closed/acme/results/box/qwen3-vl-235b-a22b/Server"
MODEL: Final = "qwen3-vl-235b-a22b"
SCORES: Final[dict[str, Any]] = {
    "average_accuracy": 0.8,
    "accuracy_scores": [
        {
            "dataset_name": "shopify_product_catalogue::q3vl",
            "score": 0.8,
            "unit_samples": 48289,
            "num_repeats": 1,
            "total_samples": 48289,
            "complete": True,
            "dataset_type": "accuracy",
            "response_counts": {"issued": 48289, "scored": 48289, "empty": 0, "missing": 0},
        }
    ],
}


@dataclass(kw_only=True)
class Simulated:
    """A run: what was asked of the client, and what its answers took."""

    pattern: dict[str, Any] = field(
        default_factory=lambda: {
            "type": "poisson",
            "target_qps": 20.0,
            "target_concurrency": None,
            "use_legacy_loadgen_qps_metrics": True,
        }
    )
    samples: int = 160
    data_set: int = 100
    seeds: Mapping[str, int] = field(default_factory=lambda: dict(ROUND_SEEDS))
    latency_ms: tuple[float, float] = (150.0, 400.0)
    tokens: tuple[int, int] = (20, 60)
    """Tokens of the shortest and the longest answer."""
    upside_down: bool = False
    """All at once, and the request that came last is answered first."""


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The value at the lower rank."""
    return ordered[int(percent / 100 * (len(ordered) - 1))]


def proven_rank(count: int, percent: float) -> int | None:
    """How many samples may lie above what early stopping proves, by the binomial distribution."""
    if count < FLOORS.get(percent, 6636):
        return None
    share, total, above = percent / 100, 0.0, 0
    while True:
        log_term = (
            math.lgamma(count + 1)
            - math.lgamma(above + 1)
            - math.lgamma(count - above + 1)
            + above * math.log(1 - share)
            + (count - above) * math.log(share)
        )
        total += math.exp(log_term)
        if total >= 0.01:
            return above
        above += 1


def series(values: Sequence[float], proven: bool = True) -> dict[str, Any]:
    """Statistics as the client writes them."""
    ordered, count, total = sorted(values), len(values), sum(values)
    mean = total / count
    low, top = ordered[0], max(ordered[-1], 10 * ordered[0])
    edges = [low * (top / low) ** (place / 30) for place in range(31)]
    counts = [0] * 30
    for value in ordered:
        counts[min(29, max(0, sum(value >= edge for edge in edges[1:])))] += 1
    found: dict[str, Any] = {
        "total": total,
        "min": ordered[0],
        "max": ordered[-1],
        "median": float(percentile(ordered, 50.0)),
        "avg": mean,
        "std_dev": math.sqrt(sum((value - mean) ** 2 for value in ordered) / (count - 1)),
        "percentiles": {
            f"{percent:.1f}": float(percentile(ordered, percent)) for percent in PERCENTS
        },
    }
    if proven:
        ranks = {percent: proven_rank(count, percent) for percent in PERCENTS if percent >= 50}
        found["early_stopping_percentiles"] = {
            f"{percent:.1f}": None if rank is None else float(ordered[count - rank])
            for percent, rank in ranks.items()
        }
    found["histogram"] = {
        "buckets": [[edges[place], edges[place + 1]] for place in range(30)],
        "counts": counts,
    }
    return found


def simulate(folder: Path, run: Simulated, events: bool = True) -> None:
    """Write the files of a run."""
    drawn = random.Random(4)
    due, issues = 1_000_000_000, list[int]()
    poisson = random.Random(run.seeds["scheduler_random_seed"])
    one_at_a_time = run.pattern["type"] != "poisson" and not run.upside_down
    latencies, firsts = list[int](), list[int]()
    for _ in range(run.samples):
        latency = int(drawn.uniform(*run.latency_ms) * MS)
        if run.upside_down:
            latency = (run.samples - len(issues)) * 100 * MS
            due += 1000
        elif not one_at_a_time:
            gap = poisson.expovariate(run.pattern["target_qps"] / 1e9)
            due += max(1, int(gap)) if issues else 0
        issues.append(due)
        latencies.append(latency)
        firsts.append(latency // 10)
        due += latency if one_at_a_time else 0
    lengths = [drawn.randint(*run.tokens) for _ in range(run.samples)]
    tokens = [
        (latency - first) / (length - 1)
        for latency, first, length in zip(latencies, firsts, lengths, strict=True)
    ]
    order, passes = random.Random(run.seeds["dataloader_random_seed"]), list(range(run.data_set))
    indices = list[int]()
    while len(indices) < run.samples:
        order.shuffle(passes)
        indices += passes
    start = issues[0] - MS
    ends = [issued + latency for issued, latency in zip(issues, latencies, strict=True)]
    duration = max(ends) - start
    window = ends[-1] - issues[0]
    legacy = window if run.pattern.get("use_legacy_loadgen_qps_metrics") else None
    seconds = (legacy or duration) / 1e9
    summary = {
        "version": "0.1.0",
        "git_sha": None,
        "test_started_at": 0,
        "n_samples_issued": run.samples,
        "n_samples_completed": run.samples,
        "n_samples_failed": 0,
        "duration_ns": duration,
        "state": "complete",
        "complete": True,
        "ttft": series(firsts),
        "tpot": series(tokens),
        "latency": series(latencies),
        "output_sequence_lengths": series(lengths, proven=False),
        "input_sequence_lengths": series(lengths, proven=False),
        "legacy_loadgen_window_duration_ns": legacy,
        "qps": (run.samples - (legacy is not None)) / seconds,
        "tps": sum(lengths) / seconds,
        "finish_reason_counts": {"stop": run.samples, "length": 0, "other": 0},
        "run_config": {
            "load_pattern": run.pattern,
            "warmup": {"enabled": False, "n_requests": None, "salt": False},
            **run.seeds,
        },
    }
    write_json(folder / SUMMARY, summary)
    write_config(folder, run)
    if events:
        write_snapshot(
            folder,
            summary,
            {
                "latency": latencies,
                "ttft": firsts,
                "tpot": tokens,
                "output_sequence_lengths": lengths,
                "input_sequence_lengths": lengths,
            },
        )
        write_events(folder, start, issues, firsts, ends, lengths)
        names = {
            "performance": {
                f"{place:032x}": index for place, index in enumerate(indices[: run.samples])
            }
        }
        write_json(folder / "sample_idx_map.json", names)


def write_json(path: Path, value: Any) -> None:
    """Write a document."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_config(folder: Path, run: Simulated) -> None:
    """Write the client's configuration."""
    pattern = {key: value for key, value in run.pattern.items() if value is not None}
    runtime = {"min_duration_ms": 600_000, **run.seeds}
    settings = {"runtime": runtime, "load_pattern": pattern, "warmup": {"enabled": False}}
    values = {
        "name": "simulated",
        "type": "online",
        "model_params": {
            "name": "invented",
            "max_new_tokens": run.tokens[1] + 4,
            "streaming": "on",
        },
        "datasets": [{"name": "invented", "type": "performance"}],
        "settings": settings,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))


def write_snapshot(
    folder: Path, summary: dict[str, Any], values: Mapping[str, Sequence[float]]
) -> None:
    """Write the final snapshot of a summary."""
    names = {
        "latency": "sample_latency_ns",
        "ttft": "ttft_ns",
        "tpot": "tpot_ns",
        "output_sequence_lengths": "osl",
        "input_sequence_lengths": "isl",
    }
    counters = {
        "tracked_samples_issued": summary["n_samples_issued"],
        "tracked_samples_completed": summary["n_samples_completed"],
        "tracked_samples_failed": 0,
        "tracked_duration_ns": summary["duration_ns"],
    }
    metrics = [
        {"type": "counter", "name": name, "value": value} for name, value in counters.items()
    ]
    for field_name, name in names.items():
        found = summary[field_name]
        metrics.append(
            {
                "type": "series",
                "name": name,
                "count": len(values[field_name]),
                "total": found["total"],
                "min": found["min"],
                "max": found["max"],
                "sum_sq": sum(value * value for value in values[field_name]),
                "percentiles": found["percentiles"],
                "early_stopping_percentiles": found.get("early_stopping_percentiles"),
                "histogram": [
                    list(pair)
                    for pair in zip(
                        found["histogram"]["buckets"], found["histogram"]["counts"], strict=True
                    )
                ],
            }
        )
    write_json(
        folder / SNAPSHOT,
        {
            "counter": 1,
            "timestamp_ns": 0,
            "state": "complete",
            "n_pending_tasks": 0,
            "metrics": metrics,
        },
    )


def write_events(
    folder: Path,
    start: int,
    issues: Sequence[int],
    firsts: Sequence[int],
    ends: Sequence[int],
    lengths: Sequence[int],
) -> None:
    """Write the events of a run, in the order of their times. An answer has as many words as it has
    tokens.
    """
    found: list[tuple[int, int, dict[str, Any]]] = [
        (start, 0, {"event_type": "session.start_performance_tracking"})
    ]
    for place, (issued, first, end, length) in enumerate(
        zip(issues, firsts, ends, lengths, strict=True)
    ):
        uuid = f"{place:032x}"
        text = ["PromptData", f"question {place}", None]
        answer = ["TextModelOutput", ["It", " is" * (length - 1)], None]
        found += [
            (issued, 1, {"event_type": "sample.issued", "sample_uuid": uuid, "data": text}),
            (issued + first, 2, {"event_type": "sample.recv_first", "sample_uuid": uuid}),
            (
                end,
                3,
                {
                    "event_type": "sample.complete",
                    "sample_uuid": uuid,
                    "data": answer,
                    "finish_reason": "stop",
                },
            ),
        ]
    found.append((max(ends), 4, {"event_type": "session.stop_performance_tracking"}))
    lines = [
        json.dumps(
            {
                "event_type": each["event_type"],
                "timestamp_ns": at,
                "sample_uuid": "",
                "data": None,
                **each,
            }
        )
        for at, _, each in sorted(found, key=lambda each: each[:2])
    ]
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")


def client_run(
    change: Callable[[Path], object] | None = None, events: bool = True, **asked: Any
) -> Builder:
    """A run folder, changed by a function of its path."""

    def build(folder: Path) -> None:
        simulate(folder / "run", Simulated(**asked), events)
        if change:
            change(folder / "run")

    return build


def client_entry(change: Callable[[Path], object] | None = None, **asked: Any) -> Builder:
    """A results tree with one entry of v6.1."""

    def build(folder: Path) -> None:
        home = folder / ENTRY
        run = Simulated(**{"samples": 12_200, "data_set": 48289, **asked})
        simulate(home, run, events=False)
        write_json(home / ACCURACY, SCORES)
        write_documents(home)
        if change:
            change(home)

    return build


def write_documents(home: Path) -> None:
    """Write what is submitted with an entry."""
    (home / "README.md").write_text("Run the client with config.yaml.\n")
    fields = {
        "input_data_types": "int32",
        "retraining": "N",
        "starting_weights_filename": "model.safetensors",
        "weight_data_types": "bf16",
        "weight_transformations": "none",
    }
    write_json(home / "measurements.json", fields)


def cached_entry(**edits: Any) -> Builder:
    """An entry of Wan with its caching test."""

    def build(folder: Path) -> None:
        home = folder / ENTRY.replace(MODEL, "wan-2.2-t2v-a14b").replace("Server", "SingleStream")
        run = Simulated(samples=50, data_set=50, pattern=CLOSED_LOOP, latency_ms=(13e3, 15e3))
        simulate(home, run, events=False)
        scores = {**SCORES["accuracy_scores"][0], "score": 0.72, "unit_samples": 248}
        scores["dataset_name"] = "wan22_prompts"
        scores["total_samples"] = 248
        scores["response_counts"] = {"issued": 248, "scored": 248, "empty": 0, "missing": 0}
        write_json(home / ACCURACY, {"average_accuracy": 0.72, "accuracy_scores": [scores]})
        write_documents(home)
        outcome = {
            "test": "output_caching",
            "passed": True,
            "ref_qps": 0.07,
            "audit_qps": 0.0702,
            "threshold": 0.1,
            "ref_completed": 50,
            "ref_requested": 50,
            "audit_completed": 50,
            "audit_requested": 50,
        }
        write_json(home / "audit" / "audit_output_caching_test.json", {**outcome, **edits})

    return build


def add_test_runs(home: Path, slower: float, copied: bool) -> None:
    """Add the two runs of a caching test to an entry of Wan, with their rates and counts: the
    reference run slower by a factor than the entry's run, the caching run perhaps its copy with all
    times a little shorter.
    """
    outcome = home / "audit" / "audit_output_caching_test.json"
    document = json.loads(outcome.read_text())
    for name, key, samples in (("reference", "ref", 48), ("output_caching", "audit", 47)):
        run = Simulated(
            samples=48 if copied else samples,
            data_set=50,
            pattern=CLOSED_LOOP,
            latency_ms=(13e3 * slower, 15e3 * slower),
        )
        simulate(home / "audit" / name, run, events=False)
        summary = json.loads((home / "audit" / name / SUMMARY).read_text())
        if copied and key == "audit":
            shorten_run(summary, 0.9999)
            write_json(home / "audit" / name / SUMMARY, summary)
        document[f"{key}_qps"] = summary["qps"]
        document[f"{key}_completed"] = document[f"{key}_requested"] = run.samples
    write_json(outcome, document)


def shorten_run(summary: dict[str, Any], factor: float) -> None:
    """Multiply all times of a run by a factor, and divide its rates by it."""
    for name in ("latency", "ttft", "tpot"):
        summary[name] = scaled(summary[name], factor)
    summary["duration_ns"] = int(summary["duration_ns"] * factor)
    for name in ("qps", "tps"):
        summary[name] /= factor


def tested_entry(slower: float = 1.0, copied: bool = False) -> Builder:
    """An entry of Wan with the two runs of its caching test."""

    def build(folder: Path) -> None:
        cached_entry()(folder)
        (home,) = folder.rglob("SingleStream")
        add_test_runs(home, slower, copied)

    return build


def summarising_entry(
    change: Callable[[Path], object] | None = None, tokens: tuple[int, int] = (120, 124)
) -> Builder:
    """An entry of llama3.1-8b, whose accuracy run counts the characters of its answers: 611 in each
    on average.
    """

    def build(folder: Path) -> None:
        home = folder / ENTRY.replace(MODEL, "llama3.1-8b")
        simulate(home, Simulated(samples=12_200, data_set=13_368, tokens=tokens), events=False)
        metrics = {
            "rouge1": "38.7852",
            "rouge2": "15.9412",
            "rougeL": "24.5021",
            "rougeLsum": "35.8103",
            "gen_len": "8167644",
            "gen_num": 13_368,
        }
        score = {
            **SCORES["accuracy_scores"][0],
            "dataset_name": "cnn_dailymail::llama3_8b",
            "score": metrics,
            "unit_samples": 13_368,
            "total_samples": 13_368,
            "duration_s": 610.5,
            "response_counts": {"issued": 13_368, "scored": 13_368, "empty": 0, "missing": 0},
        }
        write_documents(home)
        write_json(home / ACCURACY, {"average_accuracy": None, "accuracy_scores": [score]})
        if change:
            change(home)

    return build


def events_with_pauses(folder: Path) -> None:
    """Let each request of a closed loop wait for a tenth of a second more."""
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    issued = [each["sample_uuid"] for each in lines if each["event_type"] == "sample.issued"]
    for each in lines:
        turn = issued.index(each["sample_uuid"]) if each["sample_uuid"] else len(issued)
        each["timestamp_ns"] += turn * 100 * MS if turn < len(issued) or "stop" in str(each) else 0
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))


def slow_stream(folder: Path) -> None:
    """An entry of Wan whose latencies take half of its duration."""
    cached_entry()(folder)
    (home,) = folder.rglob("SingleStream")
    for name in ("latency", "ttft", "tpot"):
        edited(SUMMARY, name, value=lambda each: scaled(each, 0.5))(home)


def without_audit(folder: Path) -> None:
    """An entry of Wan that lacks its caching test."""
    cached_entry()(folder)
    (audit,) = folder.rglob("audit")
    shutil.rmtree(audit)


def change_events(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change each event of a run."""
    path = folder / "events.jsonl"
    found = [json.loads(line) for line in path.read_text().splitlines()]
    for each in found:
        change(each)
    path.write_text("".join(json.dumps(each) + "\n" for each in found))


def blank_chunks(folder: Path) -> None:
    """Let each answer begin with a chunk that says nothing."""

    def change(event: dict[str, Any]) -> None:
        if event["event_type"] == "sample.complete":
            first, rest = event["data"][1]
            event["data"][1] = [" ", first + rest]

    change_events(folder, change)


def same_answers(folder: Path) -> None:
    """Let each answer be the same long text, at a temperature above 0."""

    def change(event: dict[str, Any]) -> None:
        if event["event_type"] == "sample.complete":
            event["data"][1] = ["It", " is" * 100]

    change_events(folder, change)
    in_text("config.yaml", "streaming: 'on'", "streaming: 'on'\n  temperature: 0.7")(folder)


def asked_before(folder: Path) -> None:
    """Warm up with the first measured request."""
    path = folder / "events.jsonl"
    lines = path.read_text().splitlines()
    first = json.loads(lines[0])["timestamp_ns"]
    issued = json.loads(next(line for line in lines if "sample.issued" in line))
    warm = {**issued, "sample_uuid": "f" * 32}
    events = [
        {**warm, "timestamp_ns": first - 2},
        {**warm, "event_type": "sample.complete", "timestamp_ns": first - 1, "data": None},
    ]
    path.write_text("\n".join([*(json.dumps(each) for each in events), *lines]) + "\n")


def counted_run(change: Callable[[Path], object] | None = None) -> Builder:
    """A run beside its tokenizer, which counts words."""

    def build(folder: Path) -> None:
        client_run(change)(folder)
        write_json(folder / "tokenizer.json", WORDS)

    return build


def longer_answers(folder: Path) -> None:
    """Let each answer of the events have three words more than were counted."""

    def change(event: dict[str, Any]) -> None:
        if event["event_type"] == "sample.complete":
            event["data"][1][1] += " is is is"

    change_events(folder, change)


def briefer_answers(home: Path) -> None:
    """Let the performance run, on the same data, answer more briefly than the accuracy run."""
    in_text(
        "config.yaml",
        "- name: invented\n  type: performance",
        "- {name: invented, type: performance, path: data.jsonl}\n"
        "- {name: invented, type: accuracy, path: data.jsonl}",
    )(home)
    document = json.loads((home / ACCURACY).read_text())
    document["accuracy_scores"][0]["output_sequence_lengths"] = series([99, 100, 101], proven=False)
    write_json(home / ACCURACY, document)


OFFLINE: Final = {"type": "max_throughput", "target_qps": None, "target_concurrency": None}
WORDS: Final = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "It": 1, "is": 2}, "unk_token": "[UNK]"},
}
CHARACTERS: Final = {
    "version": "1.0",
    "added_tokens": [],
    "pre_tokenizer": {
        "type": "Split",
        "pattern": {"Regex": r"[\s\S]"},
        "behavior": "Isolated",
        "invert": False,
    },
    "model": {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"},
}
"""The published runs were made with a tokenizer of characters."""
CLOSED_LOOP: Final = {"type": "concurrency", "target_qps": None, "target_concurrency": 1}


def edited(name: str, *path: str | int, value: Any) -> Callable[[Path], None]:
    """Change one value of a document."""

    def change(folder: Path) -> None:
        document = json.loads((folder / name).read_text())
        place = document
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value(place[path[-1]]) if callable(value) else value
        write_json(folder / name, document)

    return change


def summary(*path: str | int, value: Any) -> Builder:
    """A run whose summary has another value."""
    return client_run(edited(SUMMARY, *path, value=value), events=False)


def scored(*path: str | int, value: Any) -> Builder:
    """An entry whose accuracy results have another value."""
    return client_entry(edited(ACCURACY, *path, value=value))


def in_text(name: str, old: str, new: str) -> Callable[[Path], None]:
    """Replace the first occurrence of a text."""

    def change(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text, old
        (folder / name).write_text(text.replace(old, new, 1))

    return change


def without_reason(folder: Path) -> None:
    """Take the reason to end from one answer."""
    in_text("events.jsonl", '"finish_reason": "stop"', '"finish_reason": null')(folder)
    edited(SUMMARY, "finish_reason_counts", "stop", value=159)(folder)


def all_cut(folder: Path) -> None:
    """Let all answers end by their length, though they may be longer."""
    edited(SUMMARY, "finish_reason_counts", value={"stop": 0, "length": 160, "other": 0})(folder)


def swapped_samples(folder: Path) -> None:
    """Exchange the first two samples of the map."""
    names = json.loads((folder / "sample_idx_map.json").read_text())
    first, second = list(names["performance"])[:2]
    table = names["performance"]
    table[first], table[second] = table[second], table[first]
    write_json(folder / "sample_idx_map.json", names)


def scaled(value: Any, factor: float) -> Any:
    """Multiply all numbers of a series by a factor, but for its counts."""
    if isinstance(value, dict):
        return {
            key: each if key == "counts" else scaled(each, factor) for key, each in value.items()
        }
    if isinstance(value, list):
        return [scaled(each, factor) for each in value]
    return value * factor if isinstance(value, int | float) else value


def language_entry(tokens: int) -> Builder:
    """An entry of a language model whose answers have this many tokens in the accuracy run."""

    def build(folder: Path) -> None:
        home = folder / ENTRY.replace(MODEL, "gpt-oss-120b")
        simulate(home, Simulated(samples=12_200, data_set=6396), events=False)
        lengths = series([tokens - 1, tokens, tokens + 1] * 1465, proven=False)
        counts = {"issued": 4395, "scored": 4395, "empty": 0, "missing": 0}
        score = {
            **SCORES["accuracy_scores"][0],
            "dataset_name": "gptoss_120b_accuracy",
            "score": 83.0,
            "unit_samples": 4395,
            "total_samples": 4395,
            "response_counts": counts,
            "output_sequence_lengths": lengths,
        }
        write_documents(home)
        write_json(home / ACCURACY, {"average_accuracy": 83.0, "accuracy_scores": [score]})

    return build


def shifted_events(folder: Path) -> None:
    """Let every event but the first two happen two seconds later."""
    lines = (folder / "events.jsonl").read_text().splitlines()
    late = [json.loads(line) for line in lines]
    first = late[1]["sample_uuid"]
    for each in late:
        if each["sample_uuid"] not in ("", first) or each["event_type"].startswith("session.stop"):
            each["timestamp_ns"] += 2_000_000_000
    (folder / "events.jsonl").write_text("".join(json.dumps(each) + "\n" for each in late))


def submit_twice(home: Path) -> None:
    """Submit an entry's system under a second name."""
    system = home.parents[1]
    shutil.copytree(system, system.with_name("crate"))


def write_second_summary(home: Path) -> None:
    """Keep the summary of an earlier try beside that of the run."""
    text = (home / SUMMARY).read_text()
    (home / SUMMARY).with_name("results_summary.json").write_text(text.replace("160", "161"))


BASES: Final[Mapping[str, Builder]] = {
    "endpoints": client_run(),
    "endpoints-closed-loop": client_run(pattern=CLOSED_LOOP),
    "endpoints-entry": client_entry(),
    "endpoints-audit": cached_entry(),
    "endpoints-audit-runs": tested_entry(),
    "endpoints-summaries": summarising_entry(),
}
VALID: Final[Mapping[str, Builder | str]] = {
    "file.role": "endpoints",
    "endpoints.in_flight": "endpoints-closed-loop",
    "endpoints.held": "endpoints-closed-loop",
    "endpoints.tokens_per_sample": language_entry(9_000),
    "endpoints.audit_present": "endpoints-audit",
    "endpoints.recount_tokens": counted_run(),
    "endpoints.other_answers": "endpoints-entry",
    "endpoints.single_stream": "endpoints-audit",
    "endpoints.accuracy_lengths": "endpoints-entry",
    "endpoints.model": "endpoints-entry",
    "endpoints.entry_data": "endpoints-entry",
    "endpoints.audit": "endpoints-audit",
    **dict.fromkeys(("endpoints.audit_copy", "endpoints.audit_speed"), "endpoints-audit-runs"),
    **{
        f"endpoints.{name}": "endpoints-summaries"
        for name in ("characters", "accuracy_time", "token_limit")
    },
    **{
        f"endpoints.{name}": "endpoints-entry"
        for name in (
            "seeds",
            "load_pattern",
            "duration",
            "bounds",
            "accuracy",
            "accuracy_counts",
            "accuracy_mean",
        )
    },
}
KINDS: Final = {"endpoints": "endpoints", "copies": "endpoints-entry"}
INVALID: Final[Mapping[str, Builder]] = {
    "copies.run": client_entry(submit_twice),
    "file.role": client_run(write_second_summary),
    "endpoints.evidence": client_run(events=False),
    "endpoints.state": summary("state", value="draining"),
    "endpoints.counts": summary("n_samples_issued", value=161),
    "endpoints.whole": summary("latency", "min", value=None),
    "endpoints.failed": summary("n_samples_failed", value=3),
    "endpoints.finish": summary("finish_reason_counts", "stop", value=161),
    "endpoints.rate": summary("qps", value=lambda rate: rate * 1.02),
    "endpoints.window": summary(
        "legacy_loadgen_window_duration_ns", value=lambda window: 2 * window
    ),
    "endpoints.schedule": summary(
        "legacy_loadgen_window_duration_ns", value=lambda window: window // 2
    ),
    "endpoints.in_flight": client_run(
        edited(SUMMARY, "duration_ns", value=lambda took: took // 2),
        events=False,
        pattern=CLOSED_LOOP,
    ),
    "endpoints.longer_than_allowed": client_run(
        in_text("config.yaml", "max_new_tokens: 64", "max_new_tokens: 40")
    ),
    "endpoints.config_differs": client_run(
        in_text("config.yaml", "target_qps: 20.0", "target_qps: 10.0")
    ),
    "endpoints.series": summary("latency", "percentiles", "90.0", value=lambda each: each * 1.9),
    "endpoints.histogram": summary(
        "latency", "histogram", "counts", 0, value=lambda count: count + 40
    ),
    "endpoints.early_stopping": summary("ttft", "early_stopping_percentiles", "95.0", value=None),
    "endpoints.token_time": client_run(
        edited(SUMMARY, "tpot", value=lambda each: scaled(each, 5.0)), events=False
    ),
    "endpoints.short_latencies": client_run(
        edited(SUMMARY, "latency", value=lambda each: scaled(each, 0.45)), events=False
    ),
    "endpoints.clocks": summary("tpot", "min", value=-5.0),
    "endpoints.same_numbers": client_run(edited(SNAPSHOT, "metrics", 0, "value", value=159)),
    "endpoints.report_text": client_run(
        lambda folder: (folder / "report.txt").write_text("Total samples issued: 161\n")
    ),
    "endpoints.length_ends": client_run(all_cut, events=False),
    "endpoints.recount": client_run(edited(SUMMARY, "duration_ns", value=lambda took: took + MS)),
    "endpoints.cut": client_run(without_reason),
    "endpoints.lag": client_run(shifted_events),
    "endpoints.first_chunk": client_run(blank_chunks),
    "endpoints.repeated": client_run(same_answers),
    "endpoints.warm_up_data": client_run(asked_before),
    "endpoints.reordered": client_run(pattern=OFFLINE, upside_down=True, samples=200),
    "endpoints.recount_tokens": counted_run(longer_answers),
    "endpoints.other_answers": client_entry(briefer_answers),
    "endpoints.held": client_run(events_with_pauses, pattern=CLOSED_LOOP),
    "endpoints.order": client_run(swapped_samples),
    "endpoints.seeds": client_entry(
        seeds={"scheduler_random_seed": 42, "dataloader_random_seed": 42}
    ),
    "endpoints.load_pattern": client_entry(pattern=CLOSED_LOOP, samples=2_500),
    "endpoints.duration": client_entry(in_text("config.yaml", "600000", "60000")),
    "endpoints.bounds": client_entry(latency_ms=(9_000.0, 14_000.0)),
    "endpoints.accuracy": client_entry(
        lambda home: (
            edited(ACCURACY, "average_accuracy", value=0.7)(home),
            edited(ACCURACY, "accuracy_scores", 0, "score", value=0.7)(home),
        )
    ),
    "endpoints.accuracy_counts": scored(
        "accuracy_scores", 0, "response_counts", "missing", value=2
    ),
    "endpoints.accuracy_mean": scored("average_accuracy", value=0.9),
    "endpoints.tokens_per_sample": language_entry(12_000),
    "endpoints.accuracy_lengths": scored(
        "accuracy_scores", 0, "breakdown", value={"overall_accuracy": 40.0}
    ),
    "endpoints.model": client_entry(
        in_text(
            "config.yaml", "type: online", "type: online\nsubmission_ref: {model: gpt-oss-120b}"
        )
    ),
    "endpoints.entry_data": scored("accuracy_scores", 0, "dataset_name", value="gsm8k"),
    "endpoints.single_stream": slow_stream,
    "endpoints.audit_present": without_audit,
    "endpoints.audit": cached_entry(audit_qps=0.09),
    "endpoints.audit_copy": tested_entry(copied=True),
    "endpoints.audit_speed": tested_entry(slower=1.2),
    "endpoints.shorter_than_asked": client_run(
        in_text("config.yaml", "max_new_tokens: 64", "max_new_tokens: 64\n  min_new_tokens: 50")
    ),
    "endpoints.characters": summarising_entry(tokens=(700, 704)),
    "endpoints.accuracy_time": summarising_entry(
        edited(ACCURACY, "accuracy_scores", 0, "duration_s", value=0.5)
    ),
    "endpoints.token_limit": summarising_entry(
        in_text("config.yaml", "max_new_tokens: 128", "max_new_tokens: 1024")
    ),
}
