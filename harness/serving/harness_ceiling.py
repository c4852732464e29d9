"""Measures this host's harness ceiling with a system under test that does nothing, once, and caches
it; for answers that are generated token by token, with a generator that does nothing.

A result above a fifth of the ceiling measures the harness too, and is flagged. The ceiling is
measured again if it cannot be right:
other programs used the cores when it was measured and they are free now, or a run exceeded it. The
higher figure counts:
load only ever lowers it.
"""

import math
import platform
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import click
import msgspec

from harness.children.process import run_in_child
from harness.engines.null import (
    NULL_ANSWER_TOKENS,
    NullEngine,
    NullGeneratingWorkload,
    NullWorkload,
)
from harness.machine.cpus import BUSY_SHARE, count_available_cores, measure_busy_share
from harness.machine.placement import InstancePlacement
from harness.serving.loadgen.batching import BatchingSettings
from harness.serving.loadgen.session import LoadedSystem, LoadGenJob, run_loadgen
from harness.serving.loadgen.test_settings import LoadGenSchedule
from suite import registry
from suite.files import untrusted_files
from suite.files.cache import build_cache_error, lock_cache_entry
from suite.files.json_files import write_json
from suite.files.layout import convert_to_slug
from suite.files.scratch import create_temporary_folder
from suite.files.untrusted_files import UnreadableError
from suite.loadgen.detail_log import DetailLog, read_detail_log
from suite.loadgen.headline import (
    TOKEN_HEADLINE_METRICS,
    get_rate_unit,
    select_headline_metric,
)
from suite.loadgen.scenario import Scenario
from suite.terms import Precision, Profile
from suite.units import NS_PER_S
from suite.workload import Mode, Run

NULL_BATCH_SIZE: Final = 256
MULTI_STREAM_QUERY_SAMPLES: Final = 8
"""LoadGen's samples per MultiStream query: mlperf.conf, *.MultiStream.samples_per_query."""
CEILING_OFFLINE_SAMPLES: Final = 300_000
"""Takes a few tenths of a second on the CPUs tested."""
CEILING_RUN_MS: Final = 300
STRICTEST_SERVER_BOUND_NS: Final = 15_000_000
"""inference_rules.adoc v0.5, Server latency bound of ResNet-50: the strictest of all."""
CEILING_SERVER_RATES: Final = (200_000.0, 150_000.0, 100_000.0, 50_000.0, 20_000.0, 5_000.0)
"""Tried in order until one is held."""
CEILING_TOKEN_RATES: Final = (50_000.0, 30_000.0, 20_000.0, 10_000.0, 5_000.0, 1_000.0)
"""The same in queries/s, where each query is an answer of NULL_ANSWER_TOKENS tokens."""
STRICTEST_FIRST_TOKEN_NS: Final = 200_000_000
STRICTEST_PER_TOKEN_NS: Final = 10_000_000
"""Bounds of the null generator, those of llama's smoke: the strictest of podium's rows."""


class HostCeiling(msgspec.Struct, frozen=True, kw_only=True):
    """The cached ceiling of a host."""

    measured: str
    """Time of measurement, UTC."""
    busy: float
    """0-1: share of the cores that other programs used just before."""
    samples_per_second: dict[str, float | None]
    """Scenario -> ceiling, of generated answers in Offline and Server in tokens/s; None if not even
    the lowest rate tried was held.
    """

    def merge_with_earlier(self, earlier: "HostCeiling | None") -> "HostCeiling":
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
        return HostCeiling(
            measured=self.measured, busy=min(self.busy, earlier.busy), samples_per_second=best
        )


HOST_CEILING_DECODER: Final = msgspec.json.Decoder(HostCeiling)


def resolve_harness_ceiling(
    cache: Path,
    scenario: Scenario,
    *,
    reached_rate: float = 0.0,
    instances: int = 0,
    tokens: bool = False,
) -> float | None:
    """Read this host's harness ceiling from the cache, or measure it with LoadGen runs and store it
    there; return it in samples/s, or None if the host holds not even the lowest rate tried.

    `tokens`: LoadGen measures tokens; Offline's and Server's ceilings are then in tokens/s.

    `reached_rate` is the rate that a run reached: a ceiling below it is measured again.
    `instances`: processes that serve, 0 for LoadGen's own.
    """
    path = cache / f"harness-ceiling-{format_host_key(instances, tokens)}.json"
    unit = get_rate_unit(select_headline_metric(scenario, tokens)[0])
    cached = read_cached_ceiling(path)
    if explain_measurement(cached, scenario, reached_rate, unit):
        with lock_cache_entry(path):  # measured at once, two would slow each other down
            cached = read_cached_ceiling(path)
            if reason := explain_measurement(cached, scenario, reached_rate, unit):
                click.echo(f"measuring the harness ceiling of this host, {reason}")
                measured = measure_host_ceiling(cache, instances, tokens)
                cached = measured.merge_with_earlier(cached)
                keep_host_ceiling(path, cached, measured.busy)
    return cached.samples_per_second.get(scenario.value) if cached else None


def measure_host_ceiling(cache: Path, instances: int, tokens: bool) -> HostCeiling:
    """Measure all scenarios with LoadGen runs."""
    return HostCeiling(
        measured=datetime.now(UTC).isoformat(timespec="seconds"),
        busy=measure_busy_share(),
        samples_per_second=dict(measure_scenario_ceilings(cache, instances, tokens)),
    )


def keep_host_ceiling(path: Path, ceiling: HostCeiling, busy: float) -> None:
    """Store a ceiling, which holds for this run even if that fails; say so, and what `busy` cores
    mean.
    """
    try:
        write_json(path, msgspec.to_builtins(ceiling))
    except OSError as error:
        click.echo(f"  the ceiling cannot be kept: {build_cache_error(path.parent, error)}")
    if busy > BUSY_SHARE:
        click.echo(
            f"  others use {busy:.0%} of the cores: it will be measured again when they are idle"
        )


def read_cached_ceiling(path: Path) -> HostCeiling | None:
    """Read the cached ceiling; None if it is missing or unreadable."""
    try:
        return untrusted_files.read_untrusted_file(path, HOST_CEILING_DECODER.decode)
    except UnreadableError:
        return None


def explain_measurement(
    cached: HostCeiling | None, scenario: Scenario, reached_rate: float, unit: str
) -> str:
    """Return why a ceiling must be measured, or ""."""
    if cached is None:
        return "once"
    value = cached.samples_per_second.get(scenario.value)
    if (value or math.inf) < reached_rate:
        return f"again: a run reached {reached_rate:,.0f} {unit}, and the ceiling was {value:,.0f}"
    if cached.busy > BUSY_SHARE >= measure_busy_share():
        return f"again: others used {cached.busy:.0%} of the cores on {cached.measured}"
    return ""


def format_host_key(instances: int = 0, tokens: bool = False) -> str:
    """Return the cache key: host, cores, LoadGen, Python, instances if there are any, and whether
    LoadGen measures tokens.
    """
    try:
        loadgen = version("mlcommons-loadgen")
    except PackageNotFoundError:
        loadgen = "none"
    served = f"-{instances}-instances" if instances else ""
    return convert_to_slug(
        f"{platform.node()}-{count_available_cores()}c-loadgen-{loadgen}"
        f"-python-{platform.python_version()}{served}{'-tokens' if tokens else ''}"
    )


def measure_scenario_ceilings(
    cache: Path, instances: int = 0, tokens: bool = False
) -> Iterator[tuple[str, float | None]]:
    """Measure each scenario in which LoadGen measures tokens, or each one without them."""
    measured: Iterable[Scenario] = TOKEN_HEADLINE_METRICS if tokens else Scenario
    for scenario in measured:
        if scenario is Scenario.SERVER:
            yield scenario.value, measure_server_ceiling(cache, instances, tokens)
        else:
            yield (
                scenario.value,
                compute_ceiling_rate(
                    scenario,
                    run_null_system(
                        build_null_schedule(scenario, tokens), cache, instances=instances
                    ),
                ),
            )


def measure_server_ceiling(cache: Path, instances: int = 0, tokens: bool = False) -> float | None:
    """Return the highest rate tried that meets the latency bound."""
    planned = build_null_schedule(Scenario.SERVER, tokens)
    rates = CEILING_TOKEN_RATES if tokens else CEILING_SERVER_RATES
    for target in rates:
        detail_log = run_null_system(replace(planned, rate=target), cache, instances=instances)
        if detail_log.values.get("result_validity") == "VALID":
            return compute_ceiling_rate(Scenario.SERVER, detail_log)
    return None


def compute_ceiling_rate(scenario: Scenario, detail_log: DetailLog) -> float:
    """Convert a run's figures to samples/s, or tokens/s in Offline and Server if LoadGen measured
    tokens.
    """
    if scenario in (Scenario.OFFLINE, Scenario.SERVER):
        _, key = select_headline_metric(scenario, detail_log.measures_tokens)
        return detail_log.require_number(key)
    if scenario is Scenario.MULTI_STREAM:
        return (
            MULTI_STREAM_QUERY_SAMPLES
            * NS_PER_S
            / detail_log.require_number("result_mean_query_latency_ns")
        )
    return NS_PER_S / detail_log.require_number("result_mean_latency_ns")


def run_null_system(schedule: LoadGenSchedule, cache: Path, instances: int = 0) -> DetailLog:
    """Run LoadGen over the null system, or over the null generator if it measures tokens."""
    null_system = build_null_system(cache, NULL_BATCH_SIZE, schedule.token_latencies)
    with create_temporary_folder() as folder:
        run_in_child(
            run_loadgen,
            LoadGenJob(
                system=place_null_instances(null_system, instances),
                schedule=schedule,
                folder=folder,
            ),
        )
        return read_detail_log(folder)


def place_null_instances(system: LoadedSystem, instances: int) -> LoadedSystem:
    """Let that many processes serve, not pinned; none: LoadGen's own."""
    return replace(system, placement=(InstancePlacement(device=system.run.device),) * instances)


def build_null_system(cache: Path, batch: int, tokens: bool = False) -> LoadedSystem:
    """Describe a system that does nothing, or a generator that does."""
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
    return LoadedSystem(
        workload=NullGeneratingWorkload() if tokens else NullWorkload(),
        engine=NullEngine(),
        run=run,
        checkpoint=cache,
        batching=BatchingSettings(workers=1, max_batch=batch, window_us=0),
    )


def build_null_schedule(scenario: Scenario, tokens: bool = False) -> LoadGenSchedule:
    """Build the schedule of a short run, in which LoadGen may measure tokens."""
    offline_samples = CEILING_OFFLINE_SAMPLES // (NULL_ANSWER_TOKENS if tokens else 1)
    return LoadGenSchedule(
        scenario=scenario,
        mode=Mode.PERFORMANCE,
        qsl_rng_seed=0,
        sample_index_rng_seed=0,
        schedule_rng_seed=0,
        accuracy_log_rng_seed=0,
        sampled_answers=0,
        percentile=99.0,
        bound_ns=STRICTEST_SERVER_BOUND_NS,
        min_duration_ms=CEILING_RUN_MS,
        min_queries=offline_samples if scenario is Scenario.OFFLINE else 1000,
        samples_per_query=MULTI_STREAM_QUERY_SAMPLES if scenario is Scenario.MULTI_STREAM else 1,
        rate=1.0,
        expected_latency_ns=10_000,
        token_latencies=tokens,
        first_token_ns=STRICTEST_FIRST_TOKEN_NS,
        per_token_ns=STRICTEST_PER_TOKEN_NS,
    )
