"""Honest runs whose process is stopped at random moments, as the machine of others does it: real
LoadGen, real records, judged by the rules that hold two clocks or two counts against each other.
"""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from podium_fakes.served import ROW, Served, ServedInference, job, schedule

from compliance.kinds.podium.documents.inference import LoadGenRun, read_loadgen_run
from compliance.kinds.podium.rules.inference import (
    loadgen_latencies,
    loadgen_numbers,
    loadgen_streams,
    queries,
    token_times,
    tokens,
)
from compliance.verdict import Severity
from harness.serving.loadgen.session import run_loadgen
from suite import registry
from suite.loadgen.scenario import Scenario
from suite.workload import Mode

RULES = (
    loadgen_latencies.percentiles,
    loadgen_numbers.clocks,
    loadgen_numbers.last,
    loadgen_numbers.rate,
    loadgen_numbers.span,
    loadgen_streams.streams,
    queries.arrivals,
    queries.count,
    queries.latencies,
    queries.times,
    tokens.count,
    token_times.times,
)
TOKEN_ROW = replace(
    ROW, token_latencies=True, first_token_ns=50_000_000_000, per_token_ns=50_000_000_000
)
STOPS_S = (0.05, 0.1, 0.3, 1.0, 2.0)


class StepGenerator:
    """Answers sample s with 2 + s % 3 tokens, a step of a millisecond for each."""

    slots = 4

    def __init__(self) -> None:
        self.live: dict[int, list[int]] = {}

    def warm_up(self) -> None:
        """Nothing to do."""

    def admit(self, slot: int, prompt: Sequence[int]) -> None:
        self.live[slot] = [prompt[0] + place for place in range(2 + prompt[0] % 3)]

    def step(self) -> Sequence[tuple[int, int, bool]]:
        time.sleep(0.001)
        return [(slot, left.pop(0), not left) for slot, left in self.live.items()]

    def release(self, slot: int) -> None:
        del self.live[slot]


@dataclass
class StepInference(ServedInference):
    """Implements suite.workload.GeneratingInference."""

    def prompt(self, sample: int) -> Sequence[int]:
        return [sample]

    def open_generator(self) -> StepGenerator:
        return StepGenerator()


@dataclass(frozen=True)
class Generated(Served):
    """The same samples, answered token by token."""

    def build_inference(self, run: Any, checkpoint: Path, engine: Any) -> StepInference:
        return StepInference(self, checkpoint)


def serve(folder: Path, scenario: Scenario, generates: bool) -> None:
    """Run LoadGen in this process, over a second or so."""
    facts = Generated() if generates else Served(pause_s=0.001)
    row = replace(TOKEN_ROW if generates else ROW, min_duration_ms=1_000)
    planned = job(folder, scenario, facts=facts, workers=1 if generates else 2)
    planned = replace(planned, schedule=schedule(scenario, row=row))
    planned.folder.mkdir(parents=True)
    run_loadgen(planned, raise_error)


def raise_error(error: BaseException) -> None:
    raise error


def serve_disturbed(folder: Path, scenario: Scenario, generates: bool, seed: int) -> int:
    """Run LoadGen in another process, and stop that at random moments; return how often."""
    draw = random.Random(seed)  # noqa: S311
    process = multiprocessing.get_context("spawn").Process(
        target=serve, args=(folder, scenario, generates)
    )
    process.start()
    stops = 0
    while process.is_alive():
        process.join(draw.uniform(0.02, 0.3))
        if not (folder / "run" / "mlperf_log_detail.txt").exists() or not process.is_alive():
            continue
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(draw.choice(STOPS_S) if stops < 6 else 0.05)
        os.kill(process.pid, signal.SIGCONT)
        stops += 1
    assert process.exitcode == 0
    return stops


def iterate_findings(run: LoadGenRun) -> Iterator[tuple[str, Severity]]:
    """What the rules say of a run."""
    for rule in RULES:
        yield from ((finding.rule, finding.severity) for finding in rule(run))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "generates"),
    [
        *((scenario, False) for scenario in Scenario),
        (Scenario.SINGLE_STREAM, True),
        (Scenario.SERVER, True),
        (Scenario.OFFLINE, True),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_process_that_was_stopped_is_never_accused(
    tmp_path: Path, scenario: Scenario, generates: bool, seed: int
) -> None:
    """A stop of up to two seconds between any two stamps is no edited time."""
    stops = serve_disturbed(tmp_path, scenario, generates, seed)
    run = read_loadgen_run(tmp_path / "run", Mode.PERFORMANCE, scenario, registry.load_round())
    assert run.queries is not None and (run.tokens is not None) is generates
    found = set(iterate_findings(run))
    assert not [rule for rule, severity in found if severity is Severity.ERROR], (stops, found)
    assert {rule for rule, _ in found} <= {"loadgen.clocks", "tokens.times", "queries.latencies"}
