"""How fast servers answer so many prompts at once: what sizes LoadGen's one query of a point."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from time import monotonic
from typing import Final

from harness.children.process import Abort, run_in_child
from harness.serving.loadgen.probe import ProbeResult
from harness.serving.loadgen.test_settings import ProbedSpeed
from harness.serving.network.openai.prompt_system import PromptPredictor, PromptSystem
from harness.serving.prompts.source import PromptedModel
from harness.serving.setup import ServingSetup
from suite.units import NS_PER_S

LEAST_PROBE_S: Final = 0.2
"""House rule: the first answers of a connection are slower than the others."""
MAX_PROBED: Final = 256
"""House rule: prompts at once, however many may be in flight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencyProbe:
    """What to ask."""

    system: PromptSystem
    at_once: int


def probe_prompted_servers(setup: ServingSetup, at_once: int) -> ProbeResult:
    """Ask one prompt alone, then as many at once as will be in flight: only once where an answer
    takes long.
    """
    system = setup.system
    assert isinstance(system, PromptSystem)
    job = ConcurrencyProbe(system=system, at_once=min(at_once, MAX_PROBED))
    return run_in_child(run_concurrency_probe, job)


def run_concurrency_probe(job: ConcurrencyProbe, abort: Abort) -> ProbeResult:
    """Ask the servers; runs in a child process."""
    inference, _ = job.system.open_inference()
    count = inference.sample_count
    samples = range(min(count, job.at_once))
    inference.load(samples)
    predictor = inference.open(0, job.at_once)
    assert isinstance(predictor, PromptPredictor)
    predictor.warm_up()
    alone_ns, crowded_ns = (
        measure_usual_latency_ns(job, predictor, [place % len(samples) for place in range(size)])
        for size in (1, job.at_once)
    )
    inference.close()
    speed = ProbedSpeed(
        samples_per_second=job.at_once * NS_PER_S / crowded_ns,
        latency_ns=alone_ns,
        query_latency_ns=alone_ns,
    )
    return ProbeResult(sample_count=count, built={}, calibrated={}, probe=speed)


def measure_usual_latency_ns(
    job: ConcurrencyProbe, predictor: PromptPredictor, samples: Sequence[int]
) -> float:
    """Return the mean latency of answers to these prompts, ns, as it would be of all prompts if the
    answers were as long as they may be. Fast servers are asked several times; the last one counts.
    """
    assert isinstance(job.system.workload, PromptedModel)
    asked = job.system.workload.asked
    limits = [asked.limit_answer(each) for each in asked.prompts.prompts]
    end_s = monotonic() + LEAST_PROBE_S
    predictor(samples)
    while monotonic() < end_s:
        predictor(samples)
    of_these = fmean(limits[each] for each in samples)
    return fmean(predictor.latencies_ns) * fmean(limits) / of_these
