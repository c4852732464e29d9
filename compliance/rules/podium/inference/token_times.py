"""Check when the first and the last tokens of generated answers came, against LoadGen's latencies
and the record of queries.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from compliance import within_run
from compliance.documents.podium.inference import LoadGenRun
from compliance.rules import rule
from compliance.rules.podium.inference.queries import recompute_due_times
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

COMPARED_PERCENTILES: Final = (50.0, 90.0, 99.0)
LOWER_TOLERANCE: Final = 0.01
LOWER_TOLERANCE_NS: Final = 20_000
"""LoadGen's percentiles were 0.13 % or 2.5 us below the recorded ones at most, in twelve real runs
of 64 to 1,075 answers.
"""
TOKEN_TIME_TOLERANCE: Final = 0.1
FIRST_TOKEN_TOLERANCE_NS: Final = 500_000
PER_TOKEN_TOLERANCE_NS: Final = 100_000
"""LoadGen takes its own stamps some microseconds later: on two cores with six busy programs the
percentiles differed by 2 % at most.
"""
LATENCY_KEY: Final = "result_{:.2f}_percentile_latency_ns"
LOWEST_LATENCY_KEY: Final = "result_min_latency_ns"
MEAN_LATENCY_KEY: Final = "result_mean_latency_ns"
OFFLINE_LATENCY_TOLERANCE: Final = 0.01
OFFLINE_LATENCY_TOLERANCE_NS: Final = 20_000_000
"""In twenty real Offline runs the latencies of LoadGen's and the recorded ends differed by 0.06 ms
at most, each against its first one.
"""


@rule("tokens.times", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def times(run: LoadGenRun) -> Iterator[Fault]:
    """In tokens.npy, no answer ends before it begins, and the times to the first token and per
    further token match those that LoadGen measured; in Server the first ones start when a query was
    due. A latency of LoadGen's that is below the recorded one is an error: it takes its stamps
    later.

    An answer's first token comes after its query was issued, its last one when queries.npy has it
    done, and in Offline as long after the first answer's as LoadGen's latencies say: errors.

    Source: mlcommons/inference, loadgen/results.cc: (last - first) / (tokens - 1); house rule:
    at most a tenth, or 0.5 ms for first and 0.1 ms for further tokens, above the recorded ones, and
    at most 1 % or 20 us below them; in Offline 1 % or 20 ms either way.
    Advice: restore the file as the run wrote it, and submit LoadGen's files unmodified.
    """
    if run.tokens is None or not run.performance or not len(run.tokens):
        return
    if bool((run.tokens.last_ns < run.tokens.first_ns).any()):
        fault = run.build_fault(
            TOKEN_RECORD_FILE, "answers that end before they begin", "first tokens before last ones"
        )
        yield replace(fault, severity=Severity.ERROR)
        return
    yield from compare_answer_ends(run)
    yield from compare_token_percentiles(
        run, OUTPUT_TOKEN_KEY, compute_per_token_ns(run), PER_TOKEN_TOLERANCE_NS
    )
    begun = find_start_times(run)
    if begun is not None and len(begun) == len(run.tokens):
        yield from compare_token_percentiles(
            run, FIRST_TOKEN_KEY, run.tokens.first_ns - begun, FIRST_TOKEN_TOLERANCE_NS
        )


def has_first_tokens(run: LoadGenRun) -> bool:
    """Return whether first tokens were seen: not of answers over a network that are not streamed,
    whose times are 0, as network.tokens requires.
    """
    network = run.record.network if run.record else None
    return network is None or network.streamed is not False


def compare_answer_ends(run: LoadGenRun) -> Iterator[Fault]:
    """Yield begins and ends of answers that contradict queries.npy, or in Offline the latencies of
    LoadGen.
    """
    assert run.tokens is not None
    ends, queries = run.tokens.last_ns, run.queries
    if queries is not None and len(queries) == len(ends):
        other = int((queries.done_ns != ends).sum())
        early = int((run.tokens.first_ns < queries.issued_ns).sum()) * has_first_tokens(run)
        for count, found, required in (
            (
                other,
                "last tokens at another time than the answer's end",
                f"the times at which {QUERY_RECORD_FILE} has the answers done",
            ),
            (
                early,
                "first tokens before the query was issued",
                f"first tokens after the times of issue in {QUERY_RECORD_FILE}",
            ),
        ):
            if count:
                sentence = f"{count} of {len(ends)} {found}"
                fault = run.build_fault(TOKEN_RECORD_FILE, sentence, required)
                yield replace(fault, severity=Severity.ERROR)
    if run.scenario is Scenario.OFFLINE and len(ends) < MAX_QUERY_RECORD_ROWS:
        yield from compare_offline_latencies(run, ends - ends.min())


def compare_offline_latencies(run: LoadGenRun, behind_first: Any) -> Iterator[Fault]:
    """Yield latencies of LoadGen's that are not as far behind the lowest one as the recorded ends
    of answers, an array (answers,) in ns, are behind the first.
    """
    import numpy

    first = run.find_number(LOWEST_LATENCY_KEY)
    recorded = {
        LATENCY_KEY.format(percentile): value
        for percentile, value in zip(
            COMPARED_PERCENTILES,
            within_run.compute_percentiles_ns(
                numpy.zeros_like(behind_first), behind_first, list(COMPARED_PERCENTILES)
            ),
            strict=True,
        )
    } | {MEAN_LATENCY_KEY: float(behind_first.mean())}
    for key, value in recorded.items():
        logged = run.find_number(key)
        if first is None or logged is None:
            continue
        tolerance = max(OFFLINE_LATENCY_TOLERANCE_NS, OFFLINE_LATENCY_TOLERANCE * value)
        if abs(logged - first - value) > tolerance:
            fault = run.build_detail_fault(
                key,
                f"{(logged - first) / NS_PER_MS:.1f} ms behind the lowest latency",
                f"about {value / NS_PER_MS:.1f} ms, by {TOKEN_RECORD_FILE}",
            )
            yield replace(fault, severity=Severity.ERROR)


def find_start_times(run: LoadGenRun) -> Any:
    """Return when LoadGen's clock starts for each query; None in Offline, or if that is unknown."""
    if run.scenario is Scenario.SERVER:
        return recompute_due_times(run)
    single = run.queries is not None and run.scenario is Scenario.SINGLE_STREAM
    return run.queries.issued_ns if run.queries is not None and single else None


def compute_per_token_ns(run: LoadGenRun) -> Any:
    """Return the time per further token of each answer that has several."""
    import numpy

    assert run.tokens is not None
    several = numpy.asarray(run.tokens.tokens) > 1
    took = numpy.asarray(run.tokens.last_ns - run.tokens.first_ns)[several]
    return took // (numpy.asarray(run.tokens.tokens)[several] - 1)


def compare_token_percentiles(
    run: LoadGenRun, form: str, found: Any, tolerance_ns: int
) -> Iterator[Fault]:
    """Yield percentiles of LoadGen's that the record contradicts: by more than LoadGen's later
    stamps explain, or that are lower, which they never make them.
    """
    import numpy

    if not len(found):
        return
    recorded = within_run.compute_percentiles_ns(
        numpy.zeros_like(found), found, list(COMPARED_PERCENTILES)
    )
    for percentile, value in zip(COMPARED_PERCENTILES, recorded, strict=True):
        logged = run.find_number(form.format(percentile))
        if logged is None:
            continue
        lower = value - logged > max(LOWER_TOLERANCE_NS, LOWER_TOLERANCE * value)
        if not lower and logged - value <= max(tolerance_ns, TOKEN_TIME_TOLERANCE * value):
            continue
        fault = run.build_detail_fault(
            form.format(percentile),
            f"{form.format(percentile)} {logged / NS_PER_MS:.3f} ms",
            f"about {value / NS_PER_MS:.3f} ms, by {TOKEN_RECORD_FILE}",
        )
        yield replace(fault, severity=Severity.ERROR if lower else None)
