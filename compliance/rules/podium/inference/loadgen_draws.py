"""LoadGen's random draws: the seeds reproduce a run's samples, schedule and logged answers."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from compliance.documents.podium.inference import LoadGenRun
from compliance.documents.podium.training import is_count
from compliance.loadgen_replay import NS_PER_S, Plan, first
from compliance.logs.source_file import Kind
from compliance.rules import rule
from compliance.rules.podium.inference.answers import planned_samples
from compliance.verdict import Fault, Severity
from suite.files.layout import ACCURACY
from suite.loadgen.scenario import Scenario

REPLAYED: Final = 1 << 22
"""Queries and samples that are drawn again, from the first; of longer runs the rest is not looked
at.
"""
KNOWN: Final = re.compile(r"[56]\.\d+(\.\d+)? @ ")
"""LoadGens whose draws were replayed; the order of draws has changed between major versions."""
SIX_DIGITS: Final = 1e-5
"""Relative: the log prints the rate with six significant digits, and every time that is drawn
follows from it.
"""
SHOWN: Final = 5
SEEDS: Final = (
    "effective_qsl_rng_seed",
    "effective_sample_index_rng_seed",
    "effective_schedule_rng_seed",
    "effective_accuracy_log_rng_seed",
)
COUNTS: Final = (
    "effective_performance_sample_count",
    "effective_samples_per_query",
    "generated_query_count",
    "effective_min_query_count",
)


@rule("loadgen.library", LoadGenRun, severity=Severity.WARNING)
def library(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen built with GCC's library would draw the loaded samples from this seed; with another
    library the draws cannot be repeated, and that is
    reported.

    Source: mlcommons/inference, loadgen/loadgen.cc, GenerateLoadableSets; libstdc++ of GCC 11 and
    later.
    Advice: install mlcommons-loadgen from the package index; the judge cannot confirm that LoadGen
    drew the samples in this log.
    """
    plan = plan_of(run)
    if plan and not (known(run) and is_loaded(run, plan)):
        yield run.detail_fault(
            "loaded_qsl_set",
            "samples that no known LoadGen draws from this seed",
            "the samples drawn from qsl_rng_seed",
        )


@rule("loadgen.draws", LoadGenRun)
def draws(run: LoadGenRun) -> Iterator[Fault]:
    """The seeds reproduce the issued samples, the times at which they were due, and the logged
    answers.

    Source: mlcommons/inference, loadgen/loadgen.cc, GenerateQueries and IssueQueries, done again
    from the seeds in the log.
    Advice: submit LoadGen's files unmodified; edited seeds, counts or answers do not match any run.
    """
    plan = plan_of(run)
    if plan is None or not (known(run) and is_loaded(run, plan)):
        return
    yield from issued(run, plan)
    if run.performance:
        yield from scheduled(run, plan)
        yield from logged(run, plan)


def plan_of(run: LoadGenRun) -> Plan | None:
    """Read what decides a run's draws; None where the log does not have it, or has counts that
    nothing draws.
    """
    counts, seeds = [run.value(key) for key in COUNTS], [run.value(key) for key in SEEDS]
    rate, duration = run.number("effective_target_qps"), run.number("effective_target_duration_ms")
    samples = run.value(
        "effective_performance_sample_count"
        if run.performance
        else "effective_accuracy_sample_count"
    )
    if (
        run.scenario is None
        or not rate
        or rate < SIX_DIGITS
        or duration is None
        or not all(map(is_count, (*counts, *seeds, samples)))
    ):
        return None
    held, per_query, queries, least = counts
    if not (
        0 < per_query <= REPLAYED
        and 0 < held <= REPLAYED
        and 0 < samples <= REPLAYED
        and queries > 0
        and least <= REPLAYED
    ):
        return None
    total = run.value("qsl_reported_total_count")
    return Plan(
        scenario=run.scenario,
        performance=run.performance,
        samples=min(samples, total) if is_count(total) else samples,
        held=held,
        per_query=per_query,
        queries=queries,
        least_queries=least,
        rate=rate,
        duration_ms=duration,
        qsl_seed=seeds[0],
        sample_seed=seeds[1],
        schedule_seed=seeds[2],
        log_seed=seeds[3],
    )


def known(run: LoadGenRun) -> bool:
    """Tell a LoadGen whose order of draws is known."""
    version = run.value("loadgen_version")
    return isinstance(version, str) and KNOWN.match(version) is not None


def is_loaded(run: LoadGenRun, plan: Plan) -> bool:
    """Tell whether a run loaded what its seed draws."""
    return [record.value for record in run.index.get("loaded_qsl_set", ())] == plan.loaded()


def issued(run: LoadGenRun, plan: Plan) -> Iterator[Fault]:
    """Yield answers to other samples than those that were issued under their numbers."""
    sequence = run.answers.sequence
    drawn = first(plan.issued(plan.loaded()), min(max(sequence, default=-1) + 1, REPLAYED))
    wrong = (
        place
        for place, number in enumerate(sequence)
        if 0 <= number < len(drawn) and drawn[number] != run.answers.samples[place]
    )
    for place in islice(wrong, SHOWN):
        number, sample = sequence[place], run.answers.samples[place]
        yield run.fault(
            ACCURACY,
            f"sample {sample} under seq_id {number}",
            f"sample {drawn[number]}, as sample_index_rng_seed draws",
            run.answers.lines[place],
        )


def scheduled(run: LoadGenRun, plan: Plan) -> Iterator[Fault]:
    """Judge how many queries were generated, for how long, and at which rate Server's were due.

    A gap between two queries is cut to whole nanoseconds: of a rate that is known to six digits it
    may come out one nanosecond longer.
    """
    if plan.queries > REPLAYED:
        return
    before, last, end = plan.last_due_ns()
    until, slack = plan.until_ns(), 2 * SIX_DIGITS + plan.rate / NS_PER_S
    if (
        last < until * (1 - slack)
        or plan.queries < plan.least_queries
        or (plan.queries > plan.least_queries and before >= until * (1 + slack))
    ):
        required = (
            f"as many as {until / NS_PER_S:g} s at {plan.rate:g} queries/s ask for, at least"
            f" {plan.least_queries}"
        )
        yield run.detail_fault(
            "generated_query_count",
            f"{plan.queries} queries, the last due after {last / NS_PER_S:g} s",
            required,
        )
    told = {"generated_query_duration": float(end)}
    if plan.scenario is Scenario.SERVER and last:
        told["result_scheduled_samples_per_sec"] = (plan.queries - 1) * NS_PER_S / last
    for key, wanted in told.items():
        found = run.number(key)
        if found is not None and abs(found - wanted) > slack * wanted:
            yield run.detail_fault(
                key, f"{key} {found:g}", f"{wanted:g}, as schedule_rng_seed and rate make it"
            )


def logged(run: LoadGenRun, plan: Plan) -> Iterator[Fault]:
    """Judge which answers a performance run logged: the seed of the log, made of campaign and
    checkpoint, chooses them.
    """
    target, planned, count = (
        run.number("effective_accuracy_log_sampling_target"),
        planned_samples(run),
        run.number("result_query_count"),
    )
    if (
        not target
        or planned is None
        or count is None
        or any(source.has(Kind.MISSING, Kind.UNREADABLE) for source in run.sources)
    ):
        return
    import numpy

    share, chances = (
        target / planned,
        plan.chances(max(0, int(min(count * plan.per_query, REPLAYED)))),
    )
    told = numpy.zeros(len(chances), bool)
    told[[number for number in run.answers.sequence if 0 <= number < len(told)]] = True
    wrong = numpy.flatnonzero(
        (told != (chances <= share)) & (abs(chances - share) > SIX_DIGITS * share)
    ).tolist()
    if wrong:
        found = (
            f"seq_id {', '.join(map(str, wrong[:SHOWN]))}:"
            f" {'logged' if told[wrong[0]] else 'not logged'}, {len(wrong)} such in all"
        )
        yield run.fault(
            ACCURACY, found, "the answers that accuracy_log_rng_seed and the counts choose"
        )
