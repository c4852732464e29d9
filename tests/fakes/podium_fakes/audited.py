"""A system under test for audits: a device that sleeps for each sample, honest or one of six
cheats, as `audited.cheat` says.

index: caches answers by sample; content: by what is in them; seeds: is fast where the samples come
as the round's seeds draw them;
official: knows MLCommons' public seeds too; mode: in performance mode only the first element of an
answer is computed; model: another
model answers there.
"""

import json
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from compliance.loadgen_replay import MersenneTwister
from podium_fakes.fake import probe_briefly
from suite import registry
from suite.audits.names import AuditTest
from suite.audits.rules import read_audit_rules
from suite.engine import Engine
from suite.workload import Mode, Run, Scores

SAMPLES = 2048
KNOWN = 0.02
"""Share of it that a cheat needs."""
CHEATS = {
    "index": AuditTest.TEST04,
    "content": AuditTest.TEST04,
    "seeds": AuditTest.TEST05,
    "official": AuditTest.TEST05,
    "mode": AuditTest.TEST01,
    "model": AuditTest.TEST01,
}
"""Cheat -> the test that shows it."""


def answer(sample: int) -> bytes:
    """Give the right answer: two numbers."""
    return struct.pack("<ii", sample * 7 % 1000, sample % 13)


def score(answers: Mapping[int, bytes], truth: Path) -> Scores:
    """Count right answers."""
    return {"top1": sum(data == answer(sample) for sample, data in answers.items()) / SAMPLES}


def known_orders(cheat: str) -> list[list[int]]:
    """Draw the orders in which samples are loaded, of the seeds that a cheat knows."""
    seeds = [registry.load_round().loadgen.qsl_rng_seed] if cheat in ("seeds", "official") else []
    if cheat == "official":
        seeds += [
            int(rules.tests[AuditTest.TEST05].settings.get("qsl_rng_seed", 0))
            for rules in read_audit_rules().values()
        ]
    return [MersenneTwister(seed).shuffle(list(range(SAMPLES))) for seed in seeds]


def in_performance_mode() -> bool:
    """Look in the frames of the harness for the mode: what it does not tell, a cheat may find."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        schedule = getattr(frame.f_locals.get("job"), "schedule", None)
        if schedule is not None:
            return bool(schedule.mode is Mode.PERFORMANCE)
        frame = frame.f_back
    return False


class AuditedInference:
    """Implements suite.workload.Inference."""

    sample_count = SAMPLES
    performance_sample_count = SAMPLES

    def __init__(self, run: Run) -> None:
        probe_briefly()
        self.cheat = str(run.settings["audited.cheat"])
        self.sample_s = float(str(run.settings["audited.sample_ms"])) / 1000
        self.performance, self.orders = in_performance_mode(), known_orders(self.cheat)
        self.seen: set[Any] = set()
        self.prepared = False

    def load(self, samples: Sequence[int]) -> None:
        """Look at their order."""
        self.prepared = list(samples) in self.orders

    def unload(self, samples: Sequence[int]) -> None:
        """Hold nothing."""

    def length(self, sample: int) -> int:
        """All alike."""
        return 1

    def open(self, worker: int, max_batch: int) -> "AuditedInference":
        """Be the predictor too."""
        return self

    def warm_up(self) -> None:
        """Need nothing."""

    def __call__(self, samples: Sequence[int]) -> Sequence[bytes]:
        """Answer in the time that all samples take."""
        time.sleep(self.sample_s * sum(map(self.share, samples)))
        return [self.answered(sample) for sample in samples]

    def share(self, sample: int) -> float:
        """Tell which part of a sample's time it takes."""
        if self.cheat in ("index", "content"):
            key = sample if self.cheat == "index" else answer(sample) + bytes(str(sample), "ascii")
            fast = key in self.seen
            self.seen.add(key)
        else:
            fast = self.prepared or (self.performance and self.cheat in ("mode", "model"))
        return KNOWN if fast else 1.0

    def answered(self, sample: int) -> bytes:
        """Answer as the cheat does."""
        right = answer(sample)
        if self.performance and self.cheat == "mode":
            return right[:4] + bytes(4)
        return (
            answer(sample + 1)
            if self.performance and self.cheat == "model" and sample % 4 == 0
            else right
        )  # TEST01 of a busy machine logs some 30 samples

    def truth(self, folder: Path) -> None:
        """Write what nobody reads."""
        (folder / "truth.json").write_text(json.dumps(SAMPLES))

    def close(self) -> None:
        """Hold nothing."""


def refuse_training(run: Run) -> NoReturn:
    """Train nothing."""
    raise NotImplementedError


def build_inference(run: Run, checkpoint: Path, engine: Engine[Any]) -> AuditedInference:
    """Make the system under test."""
    return AuditedInference(run)
