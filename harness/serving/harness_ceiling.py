"""Measures this host's harness ceiling with a system under test that does nothing, once, and caches
it.

A result above a fifth of the ceiling measures the harness too, and is flagged. The ceiling is
measured again if it cannot be right:
other programs used the cores when it was measured and they are free now, or a run exceeded it. The
higher figure counts:
load only ever lowers it.
"""

import math
import platform
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
import msgspec

from harness.children.process import run_in_child
from harness.engines.null import NullEngine, NullWorkload
from harness.machine.cpus import BUSY_SHARE, count_available_cores, measure_busy_share
from harness.machine.placement import InstancePlacement
from harness.serving.loadgen.batching import Batching
from harness.serving.loadgen.result_files import Facts, read_facts
from harness.serving.loadgen.session import Job, System, run_loadgen
from harness.serving.loadgen.test_settings import Schedule
from suite import registry
from suite.files import untrusted_files
from suite.files.json_files import write_json
from suite.files.layout import convert_to_slug
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.scenario import Scenario
from suite.terms import Precision, Profile
from suite.workload import Mode, Run

NS_PER_S: Final = 1e9
BATCH: Final = 256
MULTI_STREAM_SAMPLES: Final = 8
"""LoadGen's samples per MultiStream query: mlperf.conf, *.MultiStream.samples_per_query."""
OFFLINE_SAMPLES: Final = 300_000
"""Takes a few tenths of a second on the CPUs tested."""
SHORT_MS: Final = 300
SERVER_BOUND_NS: Final = 15_000_000
"""inference_rules.adoc v0.5, Server latency bound of ResNet-50: the strictest of all."""
SERVER_RATES: Final = (200_000.0, 150_000.0, 100_000.0, 50_000.0, 20_000.0, 5_000.0)
"""Tried in order until one is held."""


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """The cached ceiling of a host."""

    measured: str
    """Time of measurement, UTC."""
    busy: float
    """0-1: share of the cores that other programs used just before."""
    samples_per_second: dict[str, float | None]
    """Scenario -> ceiling; None if not even the lowest rate tried was held."""

    def joined(self, earlier: "Ceiling | None") -> "Ceiling":
        """Return the higher figure of each scenario."""
        if earlier is None:
            return self
        pairs = {
            name: (value, earlier.samples_per_second.get(name))
            for name, value in self.samples_per_second.items()
        }
        best = {
            name: max((value for value in pair if value is not None), default=None)
            for name, pair in pairs.items()
        }
        return Ceiling(
            measured=self.measured, busy=min(self.busy, earlier.busy), samples_per_second=best
        )


DECODER: Final = msgspec.json.Decoder(Ceiling)


def ceiling_of_host(
    cache: Path, scenario: Scenario, seen: float = 0.0, instances: int = 0
) -> float | None:
    """Return the harness ceiling in samples/s; None if this host holds not even the lowest rate
    tried.

    `seen` is the rate that a run reached: a ceiling below it is measured again. `instances`:
    processes that serve, 0 for LoadGen's own.
    """
    path = cache / f"harness-ceiling-{host_key(instances)}.json"
    kept = read(path)
    why = "once" if kept is None else doubtful(kept, scenario, seen)
    if kept is None or why:
        click.echo(f"measuring the harness ceiling of this host, {why}")
        busy = measure_busy_share()
        now = datetime.now(UTC).isoformat(timespec="seconds")
        kept = Ceiling(
            measured=now, busy=busy, samples_per_second=dict(measure(cache, instances))
        ).joined(kept)
        write_json(path, msgspec.to_builtins(kept))
        if busy > BUSY_SHARE:
            click.echo(
                f"  others use {busy:.0%} of the cores: it will be measured again when they are"
                " idle"
            )
    return kept.samples_per_second.get(scenario.value)


def read(path: Path) -> Ceiling | None:
    """Read the cached ceiling; None if it is missing or unreadable."""
    try:
        return untrusted_files.read_untrusted_file(path, DECODER.decode)
    except UnreadableError:
        return None


def doubtful(kept: Ceiling, scenario: Scenario, seen: float) -> str:
    """Return why a ceiling must be measured again, or ""."""
    value = kept.samples_per_second.get(scenario.value)
    if (value or math.inf) < seen:
        return f"again: a run reached {seen:,.0f} samples/s, and the ceiling was {value:,.0f}"
    if kept.busy > BUSY_SHARE >= measure_busy_share():
        return f"again: others used {kept.busy:.0%} of the cores on {kept.measured}"
    return ""


def host_key(instances: int = 0) -> str:
    """Return the cache key: host, cores, LoadGen, Python, instances if there are any."""
    try:
        loadgen = version("mlcommons-loadgen")
    except PackageNotFoundError:
        loadgen = "none"
    served = f"-{instances}-instances" if instances else ""
    return convert_to_slug(
        f"{platform.node()}-{count_available_cores()}c-loadgen-{loadgen}"
        f"-python-{platform.python_version()}{served}"
    )


def measure(cache: Path, instances: int = 0) -> Iterator[tuple[str, float | None]]:
    """Measure each scenario."""
    for scenario in Scenario:
        if scenario is Scenario.SERVER:
            yield scenario.value, server_ceiling(cache, instances)
        else:
            yield (
                scenario.value,
                rate(scenario, null_run(null_schedule(scenario), cache, instances=instances)),
            )


def server_ceiling(cache: Path, instances: int = 0) -> float | None:
    """Return the highest rate tried that meets the latency bound."""
    for target in SERVER_RATES:
        facts = null_run(
            replace(null_schedule(Scenario.SERVER), rate=target), cache, instances=instances
        )
        if facts.values.get("result_validity") == "VALID":
            return rate(Scenario.SERVER, facts)
    return None


def rate(scenario: Scenario, facts: Facts) -> float:
    """Convert a run's figures to samples/s."""
    if scenario is Scenario.OFFLINE:
        return facts.number("result_samples_per_second")
    if scenario is Scenario.SERVER:
        return facts.number("result_completed_samples_per_sec")
    if scenario is Scenario.MULTI_STREAM:
        return MULTI_STREAM_SAMPLES * NS_PER_S / facts.number("result_mean_query_latency_ns")
    return NS_PER_S / facts.number("result_mean_latency_ns")


def null_run(schedule: Schedule, cache: Path, batch: int = BATCH, instances: int = 0) -> Facts:
    """Run LoadGen over the null system."""
    with TemporaryDirectory(prefix="podium-ceiling-") as folder:
        run_in_child(
            run_loadgen,
            Job(
                system=several(null_system(cache, batch), instances),
                schedule=schedule,
                folder=Path(folder),
            ),
        )
        return read_facts(Path(folder))


def several(system: System, instances: int) -> System:
    """Let that many processes serve, not pinned; none: LoadGen's own."""
    return replace(system, placement=(InstancePlacement(device=system.run.device),) * instances)


def null_system(cache: Path, batch: int) -> System:
    """Describe a system that does nothing."""
    settings: Mapping[str, int] = {}
    run = Run(
        round=registry.load_round(),
        profile=Profile.SMOKE,
        seed=0,
        data=None,
        cache=cache,
        framework="none",
        input="none",
        device="cpu",
        precision=Precision.FP32,
        threads=1,
        settings=settings,
    )
    return System(
        workload=NullWorkload(),
        engine=NullEngine(),
        run=run,
        checkpoint=cache,
        batching=Batching(workers=1, max_batch=batch, window_us=0),
    )


def null_schedule(scenario: Scenario) -> Schedule:
    """Build the schedule of a short run."""
    return Schedule(
        scenario=scenario,
        mode=Mode.PERFORMANCE,
        qsl_rng_seed=0,
        sample_index_rng_seed=0,
        schedule_rng_seed=0,
        accuracy_log_rng_seed=0,
        sampled_answers=0,
        percentile=99.0,
        bound_ns=SERVER_BOUND_NS,
        min_duration_ms=SHORT_MS,
        min_queries=OFFLINE_SAMPLES if scenario is Scenario.OFFLINE else 1000,
        samples_per_query=MULTI_STREAM_SAMPLES if scenario is Scenario.MULTI_STREAM else 1,
        rate=1.0,
        expected_latency_ns=10_000,
    )
