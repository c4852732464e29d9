"""Check what arrived of each answer of a study's runs, towards servers."""

from collections.abc import Iterator
from typing import Final

from compliance.kinds.podium.documents.measured_study import JudgedStudy, StudyRun
from compliance.rules import rule
from compliance.verdict import About, Fault
from suite.files.layout import ARRIVAL_RECORD_FILE, GAP_RECORD_FILE
from suite.loadgen.arrival_record import AnswerArrivals
from suite.loadgen.token_record import TokenTimes
from suite.studies.own_prompts import has_own_prompts

MANY_GAPS: Final = 8
LEAST_ARRIVING_SHARE: Final = 0.6
MAX_SHORT_SHARE: Final = 0.5
"""House rule: a busy machine reads some streams late, and servers end some of them late: beside
eight busy programs one answer of five had a quarter of its time behind its last token.
"""


@rule("study.arrivals", JudgedStudy, About.SCORE)
def arrivals(study: JudgedStudy) -> Iterator[Fault]:
    """arrivals.npy and gaps.npy of a run have what arrived of each answer in tokens.npy: no more
    tokens at first than the answer has, no time below 0, and all times between arrivals together
    within the time from the first token to the last. Half of the answers with eight times or more
    arrive for 60 % of that time, beside those that came in one read, which have no times between:
    what follows the last arrival is the stream's end. Runs with the user's own prompts that record
    when prompts begin have both files.

    Source: house rule: suite/loadgen/arrival_record.py; the time per token leaves out the tokens
    that came first. A server may end its stream one step behind the last token.
    Advice: keep the records of a run together; repeat the command if one is lost.
    """
    for run in study.runs:
        if run.facts is None or run.planned is None:
            continue
        tokens, found = run.facts.tokens, run.facts.arrivals
        is_wanted = run.planned.has_starts and has_own_prompts(run.facts.record.system)
        if found is None and (is_wanted or run.has_arrivals):
            yield run.build_fault(
                "no record of arrivals that can be used",
                f"{ARRIVAL_RECORD_FILE} with a row for each answer, and as many times in"
                f" {GAP_RECORD_FILE} as it states",
                file=ARRIVAL_RECORD_FILE,
            )
        if found is not None and tokens is not None:
            yield from check_run_arrivals(run, found, tokens)


def check_run_arrivals(run: StudyRun, found: AnswerArrivals, tokens: TokenTimes) -> Iterator[Fault]:
    """Yield what the arrivals of a run have against its tokens."""
    if len(found) != len(tokens):
        yield run.build_fault(
            f"arrivals of {len(found)} answers", f"of {len(tokens)}", file=ARRIVAL_RECORD_FILE
        )
        return
    wrong = int(((found.first_tokens < 0) | (found.first_tokens > tokens.tokens + 1)).sum())
    if wrong:
        yield run.build_fault(
            f"{wrong} answers with more tokens at first than they have",
            "at most as many",
            file=ARRIVAL_RECORD_FILE,
        )
    lasts_ns, arrives_ns = tokens.last_ns - tokens.first_ns, found.sum_gaps_ns()
    many = found.counts >= MANY_GAPS
    short = int((many & (arrives_ns < LEAST_ARRIVING_SHARE * lasts_ns)).sum())
    network = run.facts.record.network if run.facts else None
    in_one_read = (network.answers_in_one_read or 0) if network else 0
    if short > MAX_SHORT_SHARE * int(many.sum()) + in_one_read:
        yield run.build_fault(
            f"{short} of {int(many.sum())} answers whose times between arrivals are less than"
            f" {LEAST_ARRIVING_SHARE:.0%} of the time from the first token to the last",
            f"at most {MAX_SHORT_SHARE:.0%}",
            file=GAP_RECORD_FILE,
        )
    backwards = int((found.gaps_ns < 0).sum())
    late = int((arrives_ns > lasts_ns).sum())
    if backwards or late:
        yield run.build_fault(
            f"{backwards} times below 0, and {late} answers that arrived for longer than from the"
            " first token to the last",
            "none",
            file=GAP_RECORD_FILE,
        )
