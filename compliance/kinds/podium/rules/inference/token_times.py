"""Check when the first and the last tokens of generated answers came, against LoadGen's latencies
and the record of queries.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from compliance import within_run
from compliance.kinds.podium.documents.inference import LoadGenRun
from compliance.kinds.podium.recorded_times import WALL_CLOCK_DRIFT
from compliance.kinds.podium.rules.inference.queries import recompute_due_times
from compliance.rules import rule
from compliance.verdict import About, Fault, Severity
from suite.files.layout import QUERY_RECORD_FILE, TOKEN_RECORD_FILE
from suite.loadgen.headline import FIRST_TOKEN_KEY, OUTPUT_TOKEN_KEY
from suite.loadgen.percentiles import compute_percentile_index
from suite.loadgen.query_record import MAX_QUERY_RECORD_ROWS
from suite.loadgen.scenario import Scenario
from suite.units import NS_PER_MS

COMPARED_PERCENTILES: Final = (50.0, 90.0, 99.0)
LOWER_TOLERANCE_NS: Final = 2_000
"""LoadGen computes a time per token in whole nanoseconds, and Server's schedule in steps of one; in
twelve real runs its percentiles were 2.5 us below the recorded ones at most, where no thread was
held up.
"""
TOKEN_TIME_TOLERANCE: Final = 0.1
FIRST_TOKEN_TOLERANCE_NS: Final = 500_000
PER_TOKEN_TOLERANCE_NS: Final = 100_000
"""LoadGen takes its own stamps some microseconds later: on two cores with six busy programs the
percentiles differed by 2 % at most.
"""
SERVED_LOWER_TOLERANCE_NS: Final = 100_000
"""Towards servers another thread tells LoadGen of the first token, in every answer, and the tokens
of one read follow at once: of a llama.cpp on the same machine the median was 46 us lower.
"""
MAX_HELD_UP: Final = 2
MAX_HELD_UP_SHARE: Final = 0.02
"""Answers in which a thread is held up between podium's stamp and LoadGen's, a few microseconds
apart: 1 of 108 in a run beside 11 to 17 busy programs on two cores. For how long all together,
LoadGen's mean time to the first token says.
"""
MEAN_FIRST_TOKEN_KEY: Final = "result_first_token_mean_latency_ns"
LATENCY_KEY: Final = "result_{:.2f}_percentile_latency_ns"
LOWEST_LATENCY_KEY: Final = "result_min_latency_ns"
MEAN_LATENCY_KEY: Final = "result_mean_latency_ns"
OFFLINE_LATENCY_TOLERANCE: Final = 0.01
OFFLINE_LATENCY_TOLERANCE_NS: Final = 20_000_000
"""In twenty real Offline runs the latencies of LoadGen's and the recorded ends differed by 0.06 ms
at most, each against its first one, where no thread was held up.
"""


@rule("tokens.times", LoadGenRun, About.SCORE, severity=Severity.WARNING)
def times(run: LoadGenRun) -> Iterator[Fault]:
    """In tokens.npy, no answer ends before it begins, and the times to the first token and per
    further token match LoadGen's. In Server the first ones start when a query was due. LoadGen's
    time to the first token is never below the recorded one: LoadGen starts its clock before
    podium's stamp, and takes the time of a token after it. Nor is LoadGen's time per token below
    the recorded one in more answers than a thread can have been held up in. An answer's first token
    comes after its query was issued, and its last one when queries.npy has the answer done. In
    Offline the last one comes as long after the first answer's as LoadGen's latencies give.

    Source: mlcommons/inference, loadgen/results.cc: (last - first) / (tokens - 1); house rule:
    podium stamps a token, then tells LoadGen, which stamps it before podium's thread goes on. A
    thread that is held up in between moves one answer; so 2 answers and 2 % of all are left out of
    account, as far as LoadGen's mean time to the first token has that wait as well, which is the
    time that the other tokens lack; towards servers 0.1 ms a token is, too. Above the recorded
    times a tenth, or 0.5 ms for first and 0.1 ms for further tokens, are usual; in Offline
    LoadGen's stamp is before podium's next one.
    Advice: keep tokens.npy and LoadGen's log of one run together. LoadGen's
    times are the result; they may be above the recorded ones where its thread had to wait.
    """
    if run.tokens is None or not run.performance or not len(run.tokens):
        return
    if bool((run.tokens.last_ns < run.tokens.first_ns).any()):
        fault = run.build_fault(
            "answers that end before they begin",
            "first tokens before last ones",
            file=TOKEN_RECORD_FILE,
        )
        yield replace(fault, severity=Severity.ERROR)
        return
    yield from compare_answer_ends(run)
    per_token_ns = compute_per_token_ns(run)
    held_up = MAX_HELD_UP + int(MAX_HELD_UP_SHARE * len(per_token_ns))
    begun = find_start_times(run)
    is_known = begun is not None and len(begun) == len(run.tokens)
    is_served = run.record is not None and run.record.network is not None
    lower_ns = SERVED_LOWER_TOLERANCE_NS if is_served else LOWER_TOLERANCE_NS
    yield from compare_token_percentiles(
        run, OUTPUT_TOKEN_KEY, per_token_ns, PER_TOKEN_TOLERANCE_NS, held_up, lower_ns
    )
    if is_known:
        yield from check_held_up_time(run, run.tokens.first_ns - begun)
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
                fault = run.build_fault(sentence, required, file=TOKEN_RECORD_FILE)
                yield replace(fault, severity=Severity.ERROR)
    if run.scenario is Scenario.OFFLINE and len(ends) < MAX_QUERY_RECORD_ROWS:
        yield from compare_offline_latencies(run, ends - ends.min())


def compare_offline_latencies(run: LoadGenRun, behind_first: Any) -> Iterator[Fault]:
    """Yield latencies of LoadGen's that are not as far behind the lowest one as the recorded ends
    of answers, an array (answers,) in ns, are behind the first: each of LoadGen's stamps lies
    between podium's and the next one of podium's thread.
    """
    import numpy

    first = run.find_number(LOWEST_LATENCY_KEY)
    moments = numpy.unique(behind_first)
    following = numpy.append(moments[1:], moments[-1])
    behind_next = following[numpy.searchsorted(moments, behind_first)]
    held_up_ns = int(following[0])  # at most, of the first stamp
    for key, soonest, latest in zip(
        (*(LATENCY_KEY.format(each) for each in COMPARED_PERCENTILES), MEAN_LATENCY_KEY),
        list_compared_figures(behind_first),
        list_compared_figures(behind_next),
        strict=True,
    ):
        logged = run.find_number(key)
        if first is None or logged is None:
            continue
        tolerance = max(OFFLINE_LATENCY_TOLERANCE_NS, OFFLINE_LATENCY_TOLERANCE * latest)
        if soonest - held_up_ns - tolerance <= logged - first <= latest + tolerance:
            continue
        fault = run.build_fault(
            f"{(logged - first) / NS_PER_MS:.1f} ms behind the lowest latency",
            f"about {soonest / NS_PER_MS:.1f} ms, by {TOKEN_RECORD_FILE}",
            key,
        )
        yield replace(fault, severity=Severity.ERROR)


def list_compared_figures(times_ns: Any) -> list[float]:
    """Return the compared percentiles of times, an array (answers,), and their mean."""
    import numpy

    percentiles = within_run.compute_percentiles_ns(
        numpy.zeros_like(times_ns), times_ns, COMPARED_PERCENTILES
    )
    return [*percentiles, float(times_ns.mean())]


def find_start_times(run: LoadGenRun) -> Any:
    """Return when LoadGen's clock starts for each query; None in Offline, or if that is unknown."""
    if run.scenario is Scenario.SERVER:
        return recompute_due_times(run)
    single = run.queries is not None and run.scenario is Scenario.SINGLE_STREAM
    if run.queries is not None and single:
        return run.queries.issued_ns
    return None


def compute_per_token_ns(run: LoadGenRun) -> Any:
    """Return the time per further token of each answer that has several."""
    import numpy

    assert run.tokens is not None
    several = numpy.asarray(run.tokens.tokens) > 1
    took = numpy.asarray(run.tokens.last_ns - run.tokens.first_ns)[several]
    return took // (numpy.asarray(run.tokens.tokens)[several] - 1)


def check_held_up_time(run: LoadGenRun, first_token_ns: Any) -> Iterator[Fault]:
    """Yield times per token that are lower than recorded by more than a thread was held up behind
    podium's stamps of first tokens: LoadGen's times to the first token have all of that.
    """
    import numpy

    assert run.tokens is not None
    mean, count = run.find_number(MEAN_FIRST_TOKEN_KEY), len(first_token_ns)
    if mean is None or not has_first_tokens(run):
        return
    held_up_ns = count * max(0.0, mean + 1 - float(first_token_ns.mean()))  # cut to whole ns
    found = compute_per_token_ns(run)
    further = numpy.asarray(run.tokens.tokens)
    further = further[further > 1] - 1
    if not len(found):
        return
    for percentile in COMPARED_PERCENTILES:
        logged = run.find_number(OUTPUT_TOKEN_KEY.format(percentile))
        if logged is None:
            continue
        most = logged + LOWER_TOLERANCE_NS + WALL_CLOCK_DRIFT * logged
        above = numpy.sort(((found - most) * further)[found > most])
        moved = compute_percentile_index(len(found), percentile) + 1 - (len(found) - len(above))
        needed_ns = float(above[: max(0, moved)].sum())
        if needed_ns > held_up_ns:
            fault = run.build_fault(
                f"{OUTPUT_TOKEN_KEY.format(percentile)} {logged / NS_PER_MS:.3f} ms, which lacks"
                f" {needed_ns / NS_PER_MS:.3f} ms of {TOKEN_RECORD_FILE}",
                f"at most {held_up_ns / NS_PER_MS:.3f} ms less, which first tokens were held up",
                OUTPUT_TOKEN_KEY.format(percentile),
            )
            yield replace(fault, severity=Severity.ERROR)


def compare_token_percentiles(
    run: LoadGenRun,
    form: str,
    found: Any,
    tolerance_ns: int,
    held_up: int = 0,
    lower_ns: int = LOWER_TOLERANCE_NS,
) -> Iterator[Fault]:
    """Yield percentiles of LoadGen's that the record contradicts: by more than LoadGen's later
    stamps usually explain, or that are lower by more than `lower_ns`, although only so many answers
    can have been held up between podium's stamp of the first token and LoadGen's.
    """
    import numpy

    if not len(found):
        return
    ordered, count = numpy.sort(found), len(found)
    spare = MAX_HELD_UP + int(MAX_HELD_UP_SHARE * count)
    for percentile in COMPARED_PERCENTILES:
        place = compute_percentile_index(count, percentile)
        value, above = (int(ordered[each]) for each in (place, min(count - 1, place + spare)))
        least = int(ordered[max(0, place - held_up)])
        logged = run.find_number(form.format(percentile))
        if logged is None:
            continue
        lower = least - logged > lower_ns + WALL_CLOCK_DRIFT * least
        if not lower and logged - above <= max(tolerance_ns, TOKEN_TIME_TOLERANCE * above):
            continue
        fault = run.build_fault(
            f"{form.format(percentile)} {logged / NS_PER_MS:.3f} ms",
            f"about {value / NS_PER_MS:.3f} ms, by {TOKEN_RECORD_FILE}",
            form.format(percentile),
        )
        yield replace(fault, severity=Severity.ERROR if lower else None)
