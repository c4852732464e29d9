"""Compare a published accuracy log with LoadGen's draws: which sample has which sequence number
follows from the two seeds.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from compliance.kinds.inference_mllog.documents.run import MllogRun
from compliance.loadgen_replay import MersenneTwister, OlderMersenneTwister, ReplayPlan
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import ACCURACY_LOG
from suite.files.untrusted_files import open_regular_file
from suite.loadgen.scenario import Scenario

ANSWER_PATTERN: Final = re.compile(rb'"seq_id"\s*:\s*(\d{1,10}),\s*"qsl_idx"\s*:\s*(\d{1,10})\s*,')
MAX_ANSWER_BYTES: Final = 64 << 20
"""Bytes of an accuracy log that are compared; logs of closed entries are cut to 10 KiB."""
CHUNK_BYTES: Final = 1 << 20
OVERLAP_BYTES: Final = 128
"""Bytes of a chunk that are read again with the next one: no pair is longer."""
MAX_REPLAYED_SAMPLES: Final = 1 << 21
"""Samples of a data set, with those that are loaded twice, whose order is drawn again."""
REPLAYED_SCENARIOS: Final = {
    "Offline": Scenario.OFFLINE,
    "Server": Scenario.SERVER,
    "SingleStream": Scenario.SINGLE_STREAM,
    "MultiStream": Scenario.MULTI_STREAM,
}
PLAN_SETTINGS: Final = (
    "qsl_reported_total_count",
    "effective_performance_sample_count",
    "effective_qsl_rng_seed",
    "effective_sample_index_rng_seed",
)
OTHER_ORDER_SETTINGS: Final = (
    "effective_performance_issue_unique",
    "effective_performance_issue_same",
)
"""Settings of compliance tests; LoadGen obeys them in an accuracy run as well."""
MAX_CACHED_ORDERS: Final = 8
"""Maximum number of cached orders: the runs of a benchmark share seeds and sizes. One is at most
8 MiB.
"""


@rule(
    "inference-mllog.draws",
    MllogRun,
    About.QUALITY,
    doubt="whether these answers are the accuracy run's",
)
def draws(run: MllogRun) -> Iterator[Fault]:
    """The sample of each answer is the one that LoadGen drew for its sequence number, and no
    sequence number occurs twice.

    Source: mlcommons/inference, loadgen/loadgen.cc, GenerateLoadableSets and GenerateQueries; all
    published accuracy logs of v5.1 and v6.0 agree. Before v5.1 a difference is a warning. A LoadGen
    built without GCC's library draws otherwise, and is not compared.
    Advice: put the accuracy log of this very run here, and answer each sample under the id that
    LoadGen gave.
    """
    if run.performance:
        return
    plans = [plan for plan in list_replay_plans(run) if matches_loaded_set(run, plan)]
    pairs = read_answer_pairs(run) if plans else []
    if not pairs:
        return
    severity = None
    if not run.round.rules.draws_known:
        severity = Severity.WARNING
    path = run.folder / ACCURACY_LOG
    differing = min((find_differing_pairs(plan, pairs) for plan in plans), key=len)
    if differing:
        number, sample = differing[0]
        yield run.build_fault(
            f"{len(differing)} of {len(pairs)} answers under other sequence numbers, the"
            f" first is sample {sample} under {number}",
            "the samples that LoadGen drew from the run's seeds",
            file=path,
            severity=severity,
        )
    repeated = len(pairs) - len({number for number, _ in pairs})
    if repeated:
        yield run.build_fault(
            f"{repeated} sequence numbers that occur again",
            "one answer for each",
            file=path,
            severity=severity,
        )


def list_replay_plans(run: MllogRun) -> list[ReplayPlan]:
    """List the plans by which the run may have drawn: one for each library, and twice as many where
    its LoadGen did not log whether each sample is issued equally often. None if the log lacks what
    the draws follow from.
    """
    scenario = REPLAYED_SCENARIOS.get(run.logged_scenario or "")
    numbers = [run.find_value(key) for key in PLAN_SETTINGS]
    if scenario is None or run.find_value("effective_test_mode") != "AccuracyOnly":
        return []
    if any(run.find_value(key) is True for key in OTHER_ORDER_SETTINGS):
        return []
    if not all(type(number) is int and number >= 0 for number in numbers):
        return []
    samples, in_memory, qsl_seed, sample_seed = numbers
    # LoadGen loads all samples at once if the number is 0
    in_memory = in_memory or samples
    per_query = 1
    if scenario is Scenario.MULTI_STREAM:
        per_query = int(run.find_number("effective_samples_per_query") or 1)
    # MultiStream's loaded sets repeat samples, up to one query each
    padded = samples + (samples // max(in_memory, 1) + 1) * per_query
    if not 0 < samples < padded <= MAX_REPLAYED_SAMPLES:
        return []
    stated = run.find_value("effective_sample_concatenate_permutation")
    equal_issues = (False, True) if stated is None else (bool(stated),)
    return [
        ReplayPlan(
            scenario=scenario,
            performance=False,
            samples=samples,
            samples_in_memory=in_memory,
            per_query=per_query,
            queries=0,
            least_queries=1,
            rate=1.0,
            duration_ms=0.0,
            qsl_seed=qsl_seed,
            sample_seed=sample_seed,
            schedule_seed=0,
            log_seed=0,
            equal_issue=equal_issue,
            generator=generator,
        )
        for equal_issue in equal_issues
        for generator in (MersenneTwister, OlderMersenneTwister)
    ]


def matches_loaded_set(run: MllogRun, plan: ReplayPlan) -> bool:
    """Return whether the last loaded set is the plan's, which tells the libraries apart; True if it
    was not logged.
    """
    loaded = run.find_value("loaded_qsl_set")
    return not isinstance(loaded, list) or loaded == plan.replay_loaded_sets()[-1]


def read_answer_pairs(run: MllogRun) -> list[tuple[int, int]]:
    """Read the sequence number and the sample of each answer, up to a limit; none if the log cannot
    be read.
    """
    found: list[tuple[int, int]] = []
    rest, read = b"", 0
    try:
        with open_regular_file(run.folder / ACCURACY_LOG) as stream:
            while read < MAX_ANSWER_BYTES and (chunk := stream.read(CHUNK_BYTES)):
                read += len(chunk)
                text, end = rest + chunk, 0
                for match in ANSWER_PATTERN.finditer(text):
                    found.append((int(match[1]), int(match[2])))
                    end = match.end()
                rest = text[max(end, len(text) - OVERLAP_BYTES) :]
    except (OSError, ValueError):
        return []
    return found


def find_differing_pairs(
    plan: ReplayPlan, pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Return the answers whose sample LoadGen did not draw for their sequence number."""
    order = replay_order(plan)
    return [
        (number, sample)
        for number, sample in pairs
        if number >= len(order) or order[number] != sample
    ]


@lru_cache(maxsize=MAX_CACHED_ORDERS)
def replay_order(plan: ReplayPlan) -> Sequence[int]:
    """Return the sample of each sequence number, and cache it."""
    return array("I", plan.replay_issued_samples(plan.replay_loaded_sets()))
