"""Check LoadGen's random draws: the seeds reproduce a run's samples, schedule and logged
answers.
"""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.documents.training import is_logged_count
from compliance.kinds.podium.rules.inference.answers import compute_planned_samples
from compliance.kinds.podium.rules.inference.loadgen_summary import EQUAL_ISSUE_KEY
from compliance.loadgen_replay import ReplayPlan, take_first_values
from compliance.logs.source_file import ParseErrorKind
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import ACCURACY_LOG
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_S

MAX_REPLAYED_DRAWS: Final = 1 << 22
"""Number of queries and samples that are redrawn, from the first; the rest of longer runs is not
checked.
"""
REPLAYED_VERSION_PATTERN: Final = re.compile(r"[56]\.\d+(\.\d+)? @ ")
"""LoadGen versions whose draws were replayed; the order of draws has changed between major
versions.
"""
DRAWN_TIME_TOLERANCE: Final = 1e-5
"""Relative: the log prints the rate with six significant digits, and every drawn time follows from
it.
"""
MAX_SHOWN_DRAWS: Final = 5
DRAW_SEED_KEYS: Final = (
    "effective_qsl_rng_seed",
    "effective_sample_index_rng_seed",
    "effective_schedule_rng_seed",
    "effective_accuracy_log_rng_seed",
)
DRAW_COUNT_KEYS: Final = (
    "effective_performance_sample_count",
    "effective_samples_per_query",
    "generated_query_count",
    "effective_min_query_count",
)


@rule("loadgen.library", LoadGenRun, About.RULES, severity=Severity.WARNING)
def library(run: LoadGenRun) -> Iterator[Fault]:
    """LoadGen built with GCC's library draws the loaded samples from this seed. The draws of
    another library cannot be repeated, and that is reported.

    Source: mlcommons/inference, loadgen/loadgen.cc, GenerateLoadableSets; libstdc++ of GCC 11 and
    later.
    Advice: install mlcommons-loadgen from the package index; the judge cannot confirm that LoadGen
    drew the samples in this log.
    """
    plan = build_draw_plan(run)
    if plan and not (has_known_draw_order(run) and has_loaded_drawn_samples(run, plan)):
        yield run.build_fault(
            "samples that no known LoadGen draws from this seed",
            "the samples drawn from qsl_rng_seed",
            "loaded_qsl_set",
        )


@rule("loadgen.draws", LoadGenRun, About.SCORE)
def draws(run: LoadGenRun) -> Iterator[Fault]:
    """The seeds reproduce the issued samples, their due times, and the logged answers.

    Source: mlcommons/inference, loadgen/loadgen.cc, GenerateQueries and IssueQueries, repeated with
    the seeds in the log.
    Advice: put the logs of one run into one folder; serve again if files of several runs were
    mixed.
    """
    plan = build_draw_plan(run)
    if plan is None or not (has_known_draw_order(run) and has_loaded_drawn_samples(run, plan)):
        return
    yield from check_issued_samples(run, plan)
    if run.performance:
        yield from check_drawn_schedule(run, plan)
        yield from check_logged_answers(run, plan)


def build_draw_plan(run: LoadGenRun) -> ReplayPlan | None:
    """Read the values that decide a run's draws; None if the log lacks them, or has impossible
    counts.
    """
    counts, seeds = (
        [run.find_value(key) for key in DRAW_COUNT_KEYS],
        [run.find_value(key) for key in DRAW_SEED_KEYS],
    )
    rate, duration = (
        run.find_number("effective_target_qps"),
        run.find_number("effective_target_duration_ms"),
    )
    kind = "performance" if run.performance else "accuracy"
    samples = run.find_value(f"effective_{kind}_sample_count")
    if (
        run.scenario is None
        or not rate
        or rate < DRAWN_TIME_TOLERANCE
        or duration is None
        or not all(map(is_logged_count, (*counts, *seeds, samples)))
    ):
        return None
    held, per_query, queries, least = counts
    if not (
        0 < per_query <= MAX_REPLAYED_DRAWS
        and 0 < held <= MAX_REPLAYED_DRAWS
        and 0 < samples <= MAX_REPLAYED_DRAWS
        and queries > 0
        and least <= MAX_REPLAYED_DRAWS
    ):
        return None
    total = run.find_value("qsl_reported_total_count")
    return ReplayPlan(
        scenario=run.scenario,
        performance=run.performance,
        samples=min(samples, total) if is_logged_count(total) else samples,
        samples_in_memory=held,
        per_query=per_query,
        queries=queries,
        least_queries=least,
        rate=rate,
        duration_ms=duration,
        qsl_seed=seeds[0],
        sample_seed=seeds[1],
        schedule_seed=seeds[2],
        log_seed=seeds[3],
        equal_issue=run.find_value(EQUAL_ISSUE_KEY) is True,
    )


def has_known_draw_order(run: LoadGenRun) -> bool:
    """Return whether a LoadGen version has a known order of draws."""
    version = run.find_value("loadgen_version")
    return isinstance(version, str) and REPLAYED_VERSION_PATTERN.match(version) is not None


def has_loaded_drawn_samples(run: LoadGenRun, plan: ReplayPlan) -> bool:
    """Return whether a run loaded the samples that its seed draws."""
    return [
        record.value for record in run.list_records("loaded_qsl_set")
    ] == plan.replay_loaded_sets()


def check_issued_samples(run: LoadGenRun, plan: ReplayPlan) -> Iterator[Fault]:
    """Yield answers to samples other than those issued under their numbers."""
    sequence = run.answers.sequence
    drawn = take_first_values(
        plan.replay_issued_samples(plan.replay_loaded_sets()),
        min(max(sequence, default=-1) + 1, MAX_REPLAYED_DRAWS),
    )
    wrong = (
        place
        for place, number in enumerate(sequence)
        if 0 <= number < len(drawn) and drawn[number] != run.answers.samples[place]
    )
    for place in islice(wrong, MAX_SHOWN_DRAWS):
        number, sample = sequence[place], run.answers.samples[place]
        yield run.build_fault(
            f"sample {sample} under seq_id {number}",
            f"sample {drawn[number]}, as drawn from sample_index_rng_seed",
            run.answers.lines[place],
            file=ACCURACY_LOG,
        )


def check_drawn_schedule(run: LoadGenRun, plan: ReplayPlan) -> Iterator[Fault]:
    """Check the number and duration of the generated queries, and the rate at which Server's were
    due.

    A gap between two queries is truncated to whole nanoseconds. With a rate of only six digits it
    may be one nanosecond longer.
    """
    if plan.queries > MAX_REPLAYED_DRAWS:
        return
    before, last, end = plan.compute_last_due_ns()
    until, slack = plan.compute_generation_end_ns(), 2 * DRAWN_TIME_TOLERANCE + plan.rate / NS_PER_S
    if (
        last < until * (1 - slack)
        or plan.queries < plan.least_queries
        or (
            plan.queries - plan.least_addition >= plan.least_queries
            and before >= until * (1 + slack)
        )
    ):
        required = (
            f"enough for {until / NS_PER_S:g} s at {plan.rate:g} queries/s, at least"
            f" {plan.least_queries}"
        )
        yield run.build_fault(
            f"{plan.queries} queries, the last due after {last / NS_PER_S:g} s",
            required,
            "generated_query_count",
        )
    expected = {"generated_query_duration": float(end)}
    if plan.scenario is Scenario.SERVER and last:
        expected["result_scheduled_samples_per_sec"] = (plan.queries - 1) * NS_PER_S / last
    for key, wanted in expected.items():
        found = run.find_number(key)
        if found is not None and abs(found - wanted) > slack * wanted:
            yield run.build_fault(
                f"{key} {found:g}",
                f"{wanted:g}, as computed from schedule_rng_seed and the rate",
                key,
            )


def check_logged_answers(run: LoadGenRun, plan: ReplayPlan) -> Iterator[Fault]:
    """Check which answers a performance run logged: the log's seed, derived from campaign and
    checkpoint, chooses them.
    """
    target, planned, count = (
        run.find_number("effective_accuracy_log_sampling_target"),
        compute_planned_samples(run),
        run.find_number("result_query_count"),
    )
    if (
        not target
        or planned is None
        or count is None
        or any(
            source.has_parse_error(ParseErrorKind.MISSING, ParseErrorKind.UNREADABLE)
            for source in run.sources
        )
    ):
        return
    import numpy

    share, chances = (
        target / planned,
        plan.replay_log_chances(max(0, int(min(count * plan.per_query, MAX_REPLAYED_DRAWS)))),
    )
    is_logged = numpy.zeros(len(chances), bool)
    is_logged[[number for number in run.answers.sequence if 0 <= number < len(is_logged)]] = True
    wrong = numpy.flatnonzero(
        (is_logged != (chances <= share)) & (abs(chances - share) > DRAWN_TIME_TOLERANCE * share)
    ).tolist()
    if wrong:
        found = (
            f"seq_id {', '.join(map(str, wrong[:MAX_SHOWN_DRAWS]))}:"
            f" {'logged' if is_logged[wrong[0]] else 'not logged'}, {len(wrong)} such in"
            " all"
        )
        yield run.build_fault(
            found, "the answers that accuracy_log_rng_seed and the counts select", file=ACCURACY_LOG
        )
