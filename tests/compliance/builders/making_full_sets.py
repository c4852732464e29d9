"""Makes run sets of profile full, as podium train leaves them for the benchmarks that have left the
rounds: its own settings, its own events, by its own writer, at times and with scores that are
given.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from making import ORG, ROUND, Event, Subject, training_events

from harness.training import mllog_writer
from harness.training.log_header import describe_method
from suite import events
from suite.rounds.settings import resolve_settings
from suite.terms import Profile
from suite.units import NS_PER_MS

SYSTEM: Final = "1xbox"
HOUR_MS: Final = 3_600_000
DESCRIPTION: Final[Mapping[str, Any]] = {
    "submitter": ORG,
    "division": "closed",
    "status": "onprem",
    "system_name": SYSTEM,
    "number_of_nodes": 1,
    "host_processors_per_node": 2,
    "host_processor_model_name": "Some CPU",
    "host_processor_core_count": 64,
    "host_memory_capacity": "512.0 GiB",
    "host_storage_type": "NVMe",
    "host_storage_capacity": "4000 GiB",
    "accelerators_per_node": 8,
    "accelerator_model_name": "Some GPU",
    "accelerator_memory_capacity": "80 GiB",
    "accelerator_memory_configuration": "HBM3",
    "framework": "torch 2.13.0",
    "other_software_stack": "Python 3.11",
    "operating_system": "Debian",
    "podium": {"version": "0.2.0"},
}
"""What podium finds out of a system."""
UNKNOWN_FIELDS: Final = (
    "host_processor_vcpu_count",
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "host_networking",
    "host_networking_topology",
    "host_memory_configuration",
    "accelerator_host_interconnect",
    "accelerator_frequency",
    "accelerator_on-chip_memories",
    "accelerator_interconnect",
    "accelerator_interconnect_topology",
    "cooling",
    "hw_notes",
    "sw_notes",
)
"""What it does not."""


@dataclass(frozen=True, kw_only=True)
class FullTraining:
    """A benchmark's run of profile full."""

    workload: str
    runs: int
    ends: Sequence[int]
    """Epochs after which it is evaluated."""
    make_score: Callable[[float], Any]
    """Function of (share of the target that is reached) that makes the value of an evaluation."""
    accumulation: int | None = None
    """Micro-batches of a step; None: the workload does not log them."""
    subject: Subject = field(init=False)

    def __post_init__(self) -> None:
        subject = Subject(
            workload=self.workload,
            metric="none",
            served=0.0,
            answers=(),
            write_truth=lambda _: None,
            trained=(0.5,),
        )
        object.__setattr__(self, "subject", subject)

    @property
    def folder(self) -> str:
        """Name of the folder of its logs."""
        return str(self.subject.row.training_name)

    def list_events(self, run: int) -> list[Event]:
        """List the events of a run, which reaches its target in the last evaluation."""
        row = self.subject.row
        settings = resolve_settings(ROUND, self.workload, Profile.FULL, {})
        made = [
            replace(event, metadata=event.metadata or describe_method(row, settings, event.key))
            for event in training_events(run, Profile.FULL, SYSTEM, subject=self.subject)
        ]
        places = {event.key: place for place, event in enumerate(made)}
        facts = []
        if self.accumulation is not None:
            facts = [Event(events.GRADIENT_ACCUMULATION_STEPS, self.accumulation)]
        size, start, stop = (
            places[key] for key in ("metric_signature", events.RUN_START, events.RUN_STOP)
        )
        return [
            *made[: size + 1],
            *facts,
            *made[size + 1 : start + 1],
            *self.iterate_blocks(run),
            *made[stop:],
        ]

    def iterate_blocks(self, run: int) -> Iterator[Event]:
        """Yield the blocks of a run, each with its evaluation."""
        first = 1
        for end in self.ends:
            share = 1.001 if end == self.ends[-1] else 0.9 * end / self.ends[-1]
            place = {"epoch_num": end}
            yield Event(
                events.BLOCK_START,
                None,
                {"first_epoch_num": first, "epoch_count": end - first + 1},
            )
            yield Event(events.BLOCK_STOP, None, {"first_epoch_num": first}, 60_000 + 11 * run)
            yield Event(events.EVAL_START, None, place)
            yield Event(events.EVAL_ACCURACY, self.make_score(share + run / 9973), place, 900)
            yield Event(events.EVAL_STOP, None, place)
            first = end + 1


FULL_TRAININGS: Final[Mapping[str, FullTraining]] = {
    each.workload: each
    for each in (
        FullTraining(
            workload="resnet50",
            runs=5,
            ends=range(4, 45, 4),
            make_score=lambda share: 0.759 * share,
            accumulation=64,
        ),
        FullTraining(
            workload="ssd",
            runs=5,
            ends=(40, 50),
            make_score=lambda share: 0.23 * share,
            accumulation=1,
        ),
        FullTraining(
            workload="maskrcnn",
            runs=5,
            ends=range(1, 15),
            make_score=lambda share: {"BBOX": 0.377 * share, "SEGM": 0.339 * share},
            accumulation=8,
        ),
        FullTraining(
            workload="gnmt", runs=10, ends=range(1, 5), make_score=lambda share: 0.24 * share
        ),
        FullTraining(
            workload="transformer",
            runs=10,
            ends=range(1, 4),
            make_score=lambda share: 0.25 * share,
        ),
    )
}
"""Workload -> its run."""


def write_full_set(root: Path, workload: str, began_ms: int) -> Path:
    """Write a results folder with a run set, and return it."""
    training, home = FULL_TRAININGS[workload], root / "results/closed" / ORG
    for run in range(training.runs):
        log = home / f"results/{SYSTEM}/{training.folder}/result_{run}.txt"
        write_at(log, training.list_events(run), began_ms + run * HOUR_MS)
    (home / "systems").mkdir(parents=True)
    (home / f"systems/{SYSTEM}.json").write_text(json.dumps(DESCRIPTION))
    return root / "results"


def write_at(path: Path, made: Sequence[Event], began_ms: int) -> None:
    """Write events as podium's writer does, by a clock that begins at a time."""
    with patch.object(mllog_writer, "read_steady_ns", lambda: now_ms * NS_PER_MS):
        now_ms = began_ms
        writer = mllog_writer.MllogWriter(path)
        writer._lead_ns = 0
        for event in made:
            now_ms += event.after_ms
            metadata = dict(event.metadata or {})
            if event.key.endswith("_start"):
                writer.log_start(event.key, **metadata)
            elif event.key.endswith("_stop") and event.value is None:
                writer.log_stop(event.key, **metadata)
            else:
                writer.log_point(event.key, event.value, **metadata)
        writer.finish()


def write_statements(home: Path) -> list[str]:
    """Write what a submitter states, and return the options that name it."""
    fields = [f'"{name}" = ""' for name in UNKNOWN_FIELDS]
    lines = ["[system]", 'status = "Available on-premise"', *fields]
    (home / "box.toml").write_text("\n".join(lines))
    (home / "code").mkdir()
    (home / "code" / "run.sh").write_text("podium train llama --profile full --seed $SEED\n")
    return ["--system-file", str(home / "box.toml"), "--code", str(home / "code")]
