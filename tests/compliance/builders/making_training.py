"""Makes small logs of published training rounds, as nobody filed them: own names, own numbers, the
rounds' own events.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

START_MS: Final = 1_590_000_000_000
LARS: Final[Mapping[str, Any]] = {
    "global_batch_size": 4096,
    "model_bn_span": 64,
    "opt_name": "lars",
    "lars_epsilon": 0.0,
    "lars_opt_weight_decay": 0.0002,
    "lars_opt_base_learning_rate": 12.5,
    "lars_opt_learning_rate_warmup_epochs": 3,
    "lars_opt_end_learning_rate": 0.0001,
    "lars_opt_learning_rate_decay_steps": 12000,
    "lars_opt_learning_rate_decay_poly_power": 2,
    "lars_opt_momentum": 0.9,
}
LARS_V06: Final[Mapping[str, Any]] = {
    "global_batch_size": 4096,
    "model_bn_span": 64,
    "opt_name": "lars",
    "opt_base_learning_rate": 12.5,
    "opt_learning_rate_warmup_epochs": 3,
    "lars_epsilon": 0.0,
    "lars_opt_weight_decay": 0.0002,
    "lars_opt_learning_rate_decay_steps": 12000,
    "lars_opt_learning_rate_decay_poly_power": 2,
}
ADAM: Final[Mapping[str, Any]] = {
    "global_batch_size": 40960,
    "opt_name": "adam",
    "opt_base_learning_rate": 0.002,
    "opt_learning_rate_warmup_steps": 900,
    "opt_adam_beta_1": 0.9,
    "opt_adam_beta_2": 0.98,
    "opt_adam_epsilon": 1e-09,
    "max_sequence_length": 64,
}
SSD: Final[Mapping[str, Any]] = {
    "global_batch_size": 1024,
    "model_bn_span": 128,
    "max_samples": 1,
    "opt_base_learning_rate": 0.09,
    "opt_weight_decay": 0.0002,
    "opt_learning_rate_warmup_steps": 600,
    "opt_learning_rate_warmup_factor": 0,
    "opt_learning_rate_decay_boundary_epochs": [44, 55],
}
MASK: Final[Mapping[str, Any]] = {
    "global_batch_size": 96,
    "opt_base_learning_rate": 0.12,
    "opt_learning_rate_warmup_steps": 600,
    "opt_learning_rate_warmup_factor": 0.0001,
    "num_image_candidates": 2000,
    "opt_learning_rate_decay_factor": 0.1,
    "opt_learning_rate_decay_steps": [12000, 16000],
    "min_image_size": 800,
    "max_image_size": 1333,
}
GNMT: Final[Mapping[str, Any]] = {
    "global_batch_size": 2048,
    "opt_base_learning_rate": 0.002,
    "opt_learning_rate_alt_decay_func": True,
    "opt_learning_rate_alt_warmup_func": True,
    "opt_learning_rate_decay_factor": 0.5,
    "opt_learning_rate_decay_interval": 800,
    "opt_learning_rate_decay_steps": 4,
    "opt_learning_rate_remain_steps": 6000,
    "opt_learning_rate_warmup_steps": 200,
    "max_sequence_length": 75,
}
LLAMA: Final[Mapping[str, Any]] = {
    "global_batch_size": 32,
    "gradient_accumulation_steps": 2,
    "max_sequence_length": 8192,
    "eval_samples": 1024,
    "opt_name": "adamw",
    "opt_base_learning_rate": 0.0009,
    "opt_end_learning_rate": 0.00009,
    "opt_learning_rate_warmup_steps": 100,
    "opt_learning_rate_decay_steps": 1_199_900,
    "opt_learning_rate_decay_schedule": "cosine with linear warmup",
    "opt_adamw_beta_1": 0.9,
    "opt_adamw_beta_2": 0.95,
    "opt_adamw_epsilon": 1e-05,
    "opt_adamw_weight_decay": 0.1,
    "opt_gradient_clip_norm": 1.0,
    "max_steps": 1_200_000,
}
LLAMA_EVERY: Final = 12_288
DIFFUSION: Final[Mapping[str, Any]] = {
    "global_batch_size": 256,
    "gradient_accumulation_steps": 1,
    "opt_name": "adamw",
    "opt_adamw_beta_1": 0.9,
    "opt_adamw_beta_2": 0.999,
    "opt_adamw_epsilon": 1e-08,
    "opt_adamw_weight_decay": 0.01,
    "opt_base_learning_rate": 0.0000000125,
    "opt_learning_rate_warmup_steps": 1000,
}
DIFFUSION_EVERY: Final = 512_000
DIFFUSED_MS: Final = 1_746_000_000_000
"""April 2025, in which runs of v5.0 were made."""
LATE_MS: Final = 1_759_000_000_000
"""September 2025, in which runs of v5.1 were made."""
SIZES: Final[Mapping[str, tuple[int, int]]] = {
    "resnet": (1_281_167, 50_000),
    "ssd": (117_266, 4952),
    "maskrcnn": (118_287, 5000),
}
"""Benchmark -> samples to train on and to evaluate on."""
OTHER_SIZES: Final = (4_000_000, 3003)


@dataclass(frozen=True, slots=True)
class Record:
    """One record, at a time after the first of its log."""

    key: str
    value: Any = None
    after_ms: float = 0
    metadata: Mapping[str, Any] = field(default_factory=dict)


Change = Callable[[list[Record]], list[Record]]


def run(
    benchmark: str = "resnet",
    settings: Mapping[str, Any] = LARS,
    scores: Sequence[Any] = (0.42, 0.7601),
    *,
    every: int = 4,
    first: int | None = None,
    epochs: bool = False,
    samples: bool = True,
    division: str = "closed",
    org: str = "acme",
    status: str = "success",
    number: int = 0,
) -> list[Record]:
    """A run that is evaluated after each block of `every` epochs, the first after `first`; `number`
    makes runs differ.
    """
    names = {
        "benchmark": benchmark,
        "org": org,
        "division": division,
        "status": "onprem",
        "platform": "1xbox",
    }
    records = [Record(f"submission_{name}", value) for name, value in names.items()]
    records += [
        Record("cache_clear", True, 1000),
        Record("init_start", None, 2000),
        Record("seed", 100 + number, 2500),
    ]
    records += [
        Record(key, value, 3000, {"method": "discard"} if key == "max_sequence_length" else {})
        for key, value in settings.items()
    ]
    records += [Record("init_stop", None, 9000), Record("run_start", None, 9001)]
    if samples:
        train, evaluation = SIZES.get(benchmark, OTHER_SIZES)
        records += [Record("train_samples", train, 9002), Record("eval_samples", evaluation, 9003)]
    now, before = 9100.0 + 7 * number, 0
    for index, score in enumerate(scores):
        last = before + (first if first and not index else every)
        records.append(
            Record(
                "block_start",
                None,
                now,
                {"first_epoch_num": before + 1, "epoch_count": last - before},
            )
        )
        for epoch in range(before + 1, last + 1) if epochs else ():
            records.append(Record("epoch_start", None, now, {"epoch_num": epoch}))
            now += 20_000 + 3 * number + epoch
            records.append(Record("epoch_stop", None, now, {"epoch_num": epoch}))
        now += 60_000 + 11 * number
        place = {"epoch_num": last}
        records += [
            Record("eval_start", None, now, place),
            Record("eval_accuracy", score, now + 2000, place),
            Record("eval_stop", None, now + 2001, place),
        ]
        now += 2002
        records.append(Record("block_stop", None, now, {"first_epoch_num": before + 1}))
        before = last
    return [*records, Record("run_stop", None, now + 1, {"status": status})]


def measured(
    *, number: int = 0, evaluations: int = 3, every: int = LLAMA_EVERY, brief: bool = False
) -> list[Record]:
    """Make a run of v5.1 that counts samples, and whose loss falls to its target in the last of the
    evaluations; a brief log has little else.
    """
    org, division = "acme", "closed"
    names = {
        "benchmark": "llama31_8b",
        "org": org,
        "division": division,
        "status": "onprem",
        "platform": "1xbox",
    }
    records = [Record("cache_clear", True), Record("init_start", None, 10)]
    records += [Record(f"submission_{name}", value, 20) for name, value in names.items()]
    records += [Record("seed", 4000 + number, 30, {"file": "train.py"})]
    records += [Record(key, value, 40) for key, value in LLAMA.items()]
    records += [Record("init_stop", None, 9000), Record("run_start", None, 9001)]
    now = 9002.0 + 7 * number
    for index in range(evaluations):
        before, at = {"samples_count": index * every}, {"samples_count": (index + 1) * every}
        records += [Record("block_start", None, now, before)] * (not brief or not index)
        now += 60_000 + 11 * number + index
        score = (
            3.31 + 2 / (index + 1) + number / 9973
            if index < evaluations - 1
            else 3.29 - number / 9973
        )
        records += [Record("block_stop", None, now, before)] * (not brief or not index) + [
            Record("eval_start", None, now, at)
        ] * (not brief)
        records += [Record("eval_accuracy", score, now + 2000, at)] + [
            Record("eval_stop", None, now + 2001, at)
        ] * (not brief)
        now += 2002
    return [
        *records,
        Record("run_stop", None, now, {"status": "success", "samples_count": evaluations * every}),
        Record("train_samples", evaluations * every, now + 1),
    ]


def diffused(*, passing: int = 4) -> list[Record]:
    """Make a run of v5.0 that is trained in blocks of 512,000 images, and whose checkpoints are
    evaluated after it: the one behind `passing` blocks passes.
    """
    names = {
        "benchmark": "stable_diffusion",
        "org": "acme",
        "division": "closed",
        "status": "onprem",
        "platform": "1xbox",
    }
    records = [Record("cache_clear", True), Record("init_start", None, 10)]
    records += [Record(f"submission_{name}", value, 20) for name, value in names.items()]
    records += [Record("seed", 4000, 30, {"file": "train.py"})] + [
        Record(key, value, 40) for key, value in DIFFUSION.items()
    ]
    records += [
        Record("train_samples", 6_513_144, 50),
        Record("eval_samples", 30_000, 50),
        Record("init_stop", None, 9000),
        Record("run_start", None, 9001),
    ]
    for index in range(passing + 1):
        place = {"samples_count": index * DIFFUSION_EVERY}
        records += [
            Record("block_start", None, 9002 + 100_000 * index, place),
            Record("block_stop", None, 9001 + 100_000 * (index + 1), place),
        ]
    now = 20_000 + 100_000.0 * (passing + 1)
    for index in range(2, passing + 1):
        place = {"samples_count": index * DIFFUSION_EVERY}
        now += 60_000
        records += [Record("eval_start", None, now - 50_000, place)]
        records += [
            Record("eval_accuracy", 88.5 + 20 * (passing - index), now, {**place, "metric": "FID"})
        ]
        records += [
            Record(
                "eval_accuracy",
                0.1512 - (passing - index) / 50,
                now + 10,
                {**place, "metric": "CLIP"},
            ),
            Record("eval_stop", None, now + 11, place),
        ]
    return [
        *records,
        Record(
            "run_stop",
            None,
            9001 + 100_000 * passing,
            {"status": "success", "step_num": passing * 2000},
        ),
    ]


def new(records: Sequence[Record], start_ms: int = START_MS, time: str = "time_ms") -> str:
    """Write records as v0.7 has them."""
    lines = []
    for record in records:
        stamp = (
            round(start_ms + record.after_ms)
            if time == "time_ms"
            else (start_ms + record.after_ms) / 1000
        )
        told = {
            time: stamp,
            "event_type": "POINT_IN_TIME",
            "key": record.key,
            "value": record.value,
            "metadata": {"lineno": 7, **record.metadata},
        }
        lines.append(f":::MLLOG {json.dumps(told)}\n")
    return "".join(lines)


def old(records: Sequence[Record], start_ms: int = START_MS) -> str:
    """Write records as v0.6 has them, among lines of another program."""
    lines = ["training starts\n"]
    for record in records:
        told = {"value": record.value, "metadata": {"lineno": 7, **record.metadata}}
        lines.append(
            f":::MLL {(start_ms + record.after_ms) / 1000:.3f} {record.key}: {json.dumps(told)}\n"
        )
    return "".join(lines)


def older(accuracies: Sequence[float] = (42.0, 76.1), minutes: float = 8.0) -> str:
    """Write a run in the text form from before v0.6: two processes, one evaluation each four
    minutes.
    """
    mark = "MLPerf: resnet [06/01/19 10:{:02d}:00], "
    lines = [
        mark.format(0) + "run_start",
        mark.format(0) + "run_start",
        mark.format(0) + "input_batch_size: 256",
    ]
    for index, accuracy in enumerate(accuracies):
        lines += [mark.format(4 * index) + f"train_epoch:{4 * index + each}" for each in range(4)]
        done = mark.format(4 * index + 4)
        lines += [
            done + "eval_start",
            done + f'eval_accuracy: {{"value": {accuracy:.5f}%, "epoch": {4 * index + 3}}}',
            done + "eval_stop",
        ]
    done = mark.format(4 * len(accuracies))
    return "\n".join(
        [*lines, done + "run_stop", done + f"Total runtime: {minutes:.6f} minutes", ""]
    )


def drop(key: str, which: int | None = None) -> Change:
    """Take out the records of an event, or the one of that index among them."""

    def change(records: list[Record]) -> list[Record]:
        places = [index for index, record in enumerate(records) if record.key == key]
        gone = places if which is None else [places[which]]
        return [record for index, record in enumerate(records) if index not in gone]

    return change


def put(key: str, which: int = 0, **edits: Any) -> Change:
    """Change the record of that index among those of an event; `later` adds to its time, `metadata`
    to its metadata.
    """

    def change(records: list[Record]) -> list[Record]:
        index = [index for index, record in enumerate(records) if record.key == key][which]
        told = dict(edits)
        record = replace(records[index], after_ms=records[index].after_ms + told.pop("later", 0))
        if "metadata" in told:
            told["metadata"] = {**record.metadata, **told["metadata"]}
        return [*records[:index], replace(record, **told), *records[index + 1 :]]

    return change


def double(key: str, which: int = 0, later: float = 0, **edits: Any) -> Change:
    """Repeat a record right behind itself, with changes."""

    def change(records: list[Record]) -> list[Record]:
        index = [index for index, record in enumerate(records) if record.key == key][which]
        again = replace(records[index], after_ms=records[index].after_ms + later, **edits)
        return [*records[: index + 1], again, *records[index + 1 :]]

    return change


def move(key: str, behind: str, which: int = 0, keep_time: bool = False) -> Change:
    """Move an event's first record behind another's, and to its time."""

    def change(records: list[Record]) -> list[Record]:
        record = next(record for record in records if record.key == key)
        rest = [each for each in records if each is not record]
        index = [index for index, each in enumerate(rest) if each.key == behind][which]
        moved = record if keep_time else replace(record, after_ms=rest[index].after_ms)
        return [*rest[: index + 1], moved, *rest[index + 1 :]]

    return change


def later(key: str, milliseconds: float) -> Change:
    """Move everything from an event's first record on to a later time."""

    def change(records: list[Record]) -> list[Record]:
        index = next(index for index, record in enumerate(records) if record.key == key)
        return [
            *records[:index],
            *(
                replace(record, after_ms=record.after_ms + milliseconds)
                for record in records[index:]
            ),
        ]

    return change


def describe(home: Path, system: str = "box", **fields: Any) -> None:
    """Write a system's description."""
    told = {
        "submitter": home.name,
        "division": "closed",
        "status": "onprem",
        "system_name": system,
        "number_of_nodes": "1",
        "host_processors_per_node": "2",
    }
    told |= dict.fromkeys(
        (
            "host_processor_model_name",
            "host_memory_capacity",
            "host_storage_type",
            "host_storage_capacity",
        ),
        "as it is",
    )
    told |= {
        "accelerators_per_node": "8",
        "accelerator_model_name": "chip",
        "framework": "own 1.0",
        "operating_system": "Linux",
        **fields,
    }
    path = home / "systems" / f"{system}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({key: value for key, value in told.items() if value is not ...}, indent=1) + "\n"
    )
