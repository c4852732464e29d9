"""What an A/B says: who is faster, by how much, what accuracy was lost, and what is needed yet."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from suite.ab.decision import MIN_BLOCKS, AbDecision, AbVerdict
from suite.ab.runs import AbBlock, AbMeasured, decide_blocks, list_blocks
from suite.ab.sides import (
    ACCURACY_RUN,
    SIDE_A,
    SIDE_B,
    SIDES,
    WARM_UP_RUN,
    AbRequest,
    describe_side,
    list_preparations,
)
from suite.human_numbers import format_plain_number
from suite.studies.answered_set import AnswerComparison, compare_answered_sets
from suite.units import S_PER_MINUTE

RUNS_PER_BLOCK: Final = 4
STEPS_REMARK: Final = (
    "optimizer steps were compared in samples/s, not the quality that a training reaches with them"
)
WIDEST_RATIO: Final = 10.0
"""House rule: an interval whose ends differ by more says nothing to people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbStep:
    """What the blocks up to one of them say together."""

    block: int
    order: str
    a: tuple[float, float]
    """Speeds of A, in the order of its runs."""
    b: tuple[float, float]
    ratio: float
    """Of this block: B over A."""
    decision: AbDecision
    disturbed: str
    """Why the block was set aside and repeated; empty if it counts."""
    remark: str
    """What disturbed a block that counts all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbAnswer:
    """What an A/B says."""

    verdict: str
    """Of AbVerdict."""
    sentence: str
    decision: AbDecision | None
    """None without a block."""
    steps: tuple[AbStep, ...]
    set_aside: int
    """Blocks that were disturbed, and repeated."""
    minutes: float
    """That all runs took."""
    more_minutes: float | None
    """Roughly what is needed beyond the budget; None if it is decided, or unknown."""
    accuracy: AnswerComparison | None
    """B's answers beside A's; None if the accuracy set was not answered."""
    lost: str
    """Which accuracy was lost, separably; empty if none was."""


def is_settled(request: AbRequest, points: Sequence[AbMeasured]) -> bool:
    """Return whether no further block is to be measured: it is decided, or the budget does not hold
    one more.
    """
    blocks = list_blocks(points)
    if blocks and decide_blocks(request, blocks).verdict is not AbVerdict.OPEN:
        return True
    spent_s = sum(each.seconds for each in points)
    next_s = 0.0
    if sum(each.point.run == WARM_UP_RUN for each in points) == len(SIDES):
        next_s = estimate_block_s(points, blocks)
    return spent_s + next_s > request.minutes * S_PER_MINUTE


def estimate_block_s(points: Sequence[AbMeasured], blocks: Sequence[AbBlock]) -> float:
    """Estimate how long a block takes: as long as those before, or four runs like the quicker
    warm-up, which alone reads everything for the first time.
    """
    if blocks:
        return fmean(each.seconds for each in blocks)
    warm = [each.seconds for each in points if each.point.run == WARM_UP_RUN]
    return RUNS_PER_BLOCK * min(warm, default=0.0)


def compute_ab_answer(request: AbRequest, points: Sequence[AbMeasured]) -> AbAnswer:
    """Compute what the points of an A/B say."""
    blocks = list_blocks(points)
    steps = tuple(iterate_steps(request, blocks))
    decision, verdict, more_minutes = None, AbVerdict.OPEN, None
    if steps:
        decision = steps[-1].decision
        verdict = decision.verdict
    if verdict is AbVerdict.OPEN:
        more_minutes = estimate_more_minutes(request, points, blocks, decision)
    compared = compare_sides(points)
    return AbAnswer(
        verdict=verdict.value,
        sentence=describe_verdict(request, points, decision, more_minutes),
        decision=decision,
        steps=steps,
        set_aside=sum(bool(each.measured.disturbed) for each in blocks),
        minutes=sum(each.seconds for each in points) / S_PER_MINUTE,
        more_minutes=more_minutes,
        accuracy=compared,
        lost=describe_lost_accuracy(compared),
    )


def iterate_steps(request: AbRequest, blocks: Sequence[AbBlock]) -> Iterator[AbStep]:
    """Yield what is known after each block."""
    for count, block in enumerate(blocks, 1):
        sides = list(zip(block.measured.order, block.measured.values, strict=True))
        first, second = ([value for side, value in sides if side == name] for name in "AB")
        yield AbStep(
            block=block.number,
            order=block.measured.order,
            a=(first[0], first[1]),
            b=(second[0], second[1]),
            ratio=block.ratio,
            decision=decide_blocks(request, blocks[:count]),
            disturbed=block.measured.disturbed,
            remark=block.remark,
        )


def estimate_more_minutes(
    request: AbRequest,
    points: Sequence[AbMeasured],
    blocks: Sequence[AbBlock],
    decision: AbDecision | None,
) -> float | None:
    """Estimate how many minutes are needed beyond the budget; None if nobody knows, or none are."""
    block_s = estimate_block_s(points, blocks)
    if not block_s:
        return None
    measured = {each.point for each in points}
    left = sum(each not in measured for each in list_preparations(request))
    more = MIN_BLOCKS if decision is None else decision.more_blocks
    needed_s = left * block_s / RUNS_PER_BLOCK + max(more, 1) * block_s
    needed_s += sum(each.seconds for each in points)
    return max(0.0, needed_s / S_PER_MINUTE - request.minutes) or None


def compare_sides(points: Sequence[AbMeasured]) -> AnswerComparison | None:
    """Compare the answers of B to the accuracy set with those of A; None if one has none."""
    found = {
        each.point.side: each.figures.answers
        for each in points
        if each.point.run == ACCURACY_RUN and each.runs
    }
    one, other = found.get(SIDE_B), found.get(SIDE_A)
    if one is None or other is None:
        return None
    return compare_answered_sets(one, other)


def describe_lost_accuracy(compared: AnswerComparison | None) -> str:
    """Say which scores of B are separably lower than A's; empty if none is."""
    if compared is None:
        return ""
    lost = [
        f"{metric} {paired.difference:+.4f} ({paired.low:+.4f} to {paired.high:+.4f})"
        for metric, paired in compared.metrics.items()
        if paired.is_separable and paired.difference < 0
    ]
    if not lost:
        return ""
    return f"B has lost accuracy: {', '.join(lost)}"


def describe_verdict(
    request: AbRequest,
    points: Sequence[AbMeasured],
    decision: AbDecision | None,
    more_minutes: float | None,
) -> str:
    """Say in a sentence what the blocks show."""
    bound = f"{format_plain_number(100 * request.difference)} %"
    if decision is not None and decision.verdict is not AbVerdict.OPEN:
        change = f"B is {describe_change(decision.ratio)} ({describe_ends(decision)})"
        if decision.verdict is AbVerdict.NO_DIFFERENCE:
            return f"no difference above {bound}: {change}"
        return change
    more = ""
    if more_minutes is not None:
        more = f"; about {format_minutes(more_minutes)} more would be needed"
    budget = format_minutes(request.minutes)
    is_used_up = is_settled(request, points)
    if decision is None and is_used_up:
        return f"not decided: a budget of {budget} does not hold one block{more}"
    if decision is None:
        return "not decided: no block is measured yet"
    if is_used_up:
        return f"not decided within {budget}{more}"
    return f"not decided yet{more}"


def describe_change(ratio: float | None) -> str:
    """Say what a ratio of speeds means for B."""
    if ratio is None:
        return "of unknown speed"
    word = "faster" if ratio >= 1 else "slower"
    return f"{word} by {100 * abs(ratio - 1):.1f} %"


def describe_ends(decision: AbDecision) -> str:
    """Format the interval of the ratio as changes."""
    if decision.low is None or decision.high is None:
        return "no interval"
    if decision.high > WIDEST_RATIO * decision.low:
        return "interval still too wide to tell"
    return f"{100 * (decision.low - 1):+.1f} to {100 * (decision.high - 1):+.1f} %"


def format_minutes(minutes: float) -> str:
    """Format a number of minutes."""
    told = format_plain_number(minutes, 2)
    return f"{told} minute{'s' * (told != '1')}"


def describe_ab(request: AbRequest, answer: AbAnswer, points: Sequence[AbMeasured]) -> list[str]:
    """Say what an A/B shows: the sentence, then how it was found."""
    told = [answer.sentence]
    if answer.lost:
        told.append(answer.lost)
    elif answer.accuracy is not None:
        told.append(describe_kept_accuracy(answer.accuracy))
    if request.training:
        told.append(STEPS_REMARK)
    told += [describe_measured_side(request, points, side) for side in SIDES]
    decision = answer.decision
    if decision is not None:
        aside = f", {answer.set_aside} of them set aside and repeated" if answer.set_aside else ""
        told.append(
            f"{len(answer.steps)} blocks{aside}, {decision.runs} runs,"
            f" {format_minutes(answer.minutes)}; equal sides are called different in at most"
            f" {100 * request.alpha:g} % of cases, and sides that differ by"
            f" {100 * request.difference:g} % equal in as many; seed {request.seed}"
        )
        told += describe_noise(decision)
    told += [
        f"block {each.block} set aside: {each.disturbed}" for each in answer.steps if each.disturbed
    ]
    noisy = [each for each in answer.steps if each.remark]
    if noisy:
        told.append(
            f"{len(noisy)} block{'s' * (len(noisy) != 1)} disturbed and counted all the same, since"
            f" the machine is not quiet: {noisy[-1].remark}"
        )
    return told


def describe_measured_side(request: AbRequest, points: Sequence[AbMeasured], side: str) -> str:
    """Say what the command says of a side, and what its first run was of."""
    measured = (each.figures.system for each in points if each.point.side == side)
    told = describe_side(request.get_side(side))
    if system := next(measured, ""):
        told += f" ({system})"
    return f"{side.upper()}: {told}"


def describe_noise(decision: AbDecision) -> list[str]:
    """Say how unequal runs of one side are, and by how much the machine drifted."""
    told = []
    if decision.noise is not None:
        told.append(f"noise: runs of one side differ by {100 * decision.noise:.1f} % (deviation)")
    if decision.drift is not None:
        told.append(f"drift: the fastest block is {100 * decision.drift:.1f} % above the slowest")
    return told


def describe_kept_accuracy(compared: AnswerComparison) -> str:
    """Say how the scores differ where B lost none separably."""
    told = ", ".join(
        f"{metric} {paired.difference:+.4f} ({paired.low:+.4f} to {paired.high:+.4f})"
        for metric, paired in compared.metrics.items()
    )
    same = f"{compared.equal} of {compared.samples} answers equal"
    return f"accuracy of B beside A's: {told or 'not scored'}; {same}, no loss shown"
