"""What the runs of an A/B say, and how four of them become a block."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from suite.ab.blocks import MeasuredBlock, find_disturbance
from suite.ab.decision import AbDecision, decide
from suite.ab.sides import BLOCK_RUN, TURNS, AbPoint, AbRequest
from suite.loadgen.headline import LATENCY_METRIC, find_logged_headline
from suite.loadgen.power_window import parse_power_time_ns
from suite.loadgen.scenario import Scenario
from suite.measurement.host_load import read_host_load
from suite.records import SystemUnderTest
from suite.studies.answered_set import AnsweredSet
from suite.studies.points import StudiedPoint
from suite.studies.run_facts import RunFacts
from suite.units import NS_PER_S

SERVER_LATENCY_KEY: Final = "result_99.00_percentile_latency_ns"
"""What Server is compared by: its rate is that of the arrivals."""
STEP_RATE_METRIC: Final = "trained_samples_per_second"
MAX_LOAD_SPREAD: Final = 0.1
"""Of the cores: the round's noise.others_share (suite/rounds/podium-v1.toml). Other programs that
take as much from all four runs of a block disturb none of them more than another.
"""
MAX_THROTTLED_SHARE: Final = 0.01
"""The round's noise.throttle_share."""
MAX_PAUSE_S: Final = 60.0
MAX_PAUSE_RATIO: Final = 3.0
"""House rule: within a block the machine may drift by little only; a start that takes more than a
minute, and three times as long as the quickest one of its block, was an interruption.
"""
MAX_REPEATED_SHARE: Final = 1 / 3
"""House rule: of all blocks at most this share is set aside and repeated. On a machine that is
never quiet the others count, and show its noise in the interval.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbFigures:
    """What a run says."""

    rate: float | None
    """Higher is better; a latency is its inverse, 1/s. None of an accuracy run."""
    metric: str
    """Of LoadGen; empty of an accuracy run."""
    starts_ns: int
    """First query, UTC."""
    ends_ns: int
    """Last answer, UTC."""
    others_share: float | None
    """Of the cores, used by other programs and the hypervisor meanwhile; None if unknown, and of a
    server on this machine, whose work is that of another program.
    """
    throttled_share: float | None
    """Of a GPU's states, with a clock that was held down; None without a GPU."""
    scores: dict[str, float] = field(default_factory=dict)
    answers: AnsweredSet | None = field(default=None, repr=False)
    system: str = ""
    """What was measured, in words."""


AbMeasured = StudiedPoint[AbPoint, AbFigures]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbBlock:
    """A block with what is known of it."""

    number: int
    """From 1."""
    measured: MeasuredBlock
    seconds: float
    """Wall-clock time of its four runs, with the start of their processes."""
    remark: str = ""
    """What disturbed a block that counts all the same."""

    @property
    def ratio(self) -> float:
        """Return the speed of B over that of A, by geometric means."""
        named = list(zip(self.measured.order, self.measured.values, strict=True))
        one, other = ([value for side, value in named if side == name] for name in ("A", "B"))
        return float((other[0] * other[1] / (one[0] * one[1])) ** 0.5)


def compute_ab_figures(run: RunFacts, *, training: bool = False) -> AbFigures | None:
    """Compute the figures of a run, of optimizer steps if `training`; None if its files do not give
    them.
    """
    begin_ns, end_ns = (
        parse_power_time_ns(run.values.get(key)) for key in ("power_begin", "power_end")
    )
    if run.has_answers:
        if run.scores is None:
            return None
        return AbFigures(
            rate=None,
            metric="",
            starts_ns=begin_ns or 0,
            ends_ns=end_ns or 0,
            others_share=None,
            throttled_share=None,
            scores=dict(run.scores),
            answers=run.answers,
            system=describe_measured_system(run.record.system),
        )
    rated = find_step_rate(run) if training else find_rate(run)
    if begin_ns is None or end_ns is None or rated is None:
        return None
    load = read_host_load(run.folder, begin_ns, end_ns)
    return AbFigures(
        rate=rated[1],
        metric=rated[0],
        starts_ns=begin_ns,
        ends_ns=end_ns,
        others_share=None if has_own_server_here(run) else load.others_share,
        throttled_share=load.throttled_share,
        system=describe_measured_system(run.record.system),
    )


def describe_measured_system(system: SystemUnderTest) -> str:
    """Name engine, precision, device and CPU threads of a system."""
    words = [system.engine, system.precision, system.device]
    if system.threads:
        words.append(f"{system.threads} CPU thread{'s' * (system.threads != 1)}")
    return ", ".join(words)


def has_own_server_here(run: RunFacts) -> bool:
    """Return whether LoadGen's machine also runs the server that is measured."""
    network = run.record.network
    return network is not None and (network.loopback or network.loadgen_machine in network.machines)


def find_rate(run: RunFacts) -> tuple[str, float] | None:
    """Return the metric of a run, and its speed; None if LoadGen logged none."""
    scenario = run.find_scenario()
    if scenario is Scenario.SERVER:
        latency_ns = run.find_number(SERVER_LATENCY_KEY)
        return (LATENCY_METRIC, NS_PER_S / latency_ns) if latency_ns else None
    headline = find_logged_headline(scenario, run.measures_tokens, run.find_number)
    if headline is None or headline.value <= 0:
        return None
    if headline.metric == LATENCY_METRIC:
        return headline.metric, NS_PER_S / headline.value
    return headline.metric, headline.value


def find_step_rate(run: RunFacts) -> tuple[str, float] | None:
    """Return the metric of optimizer steps, and their speed in samples/s: all samples over the time
    from the begin of the first step to the end of the last; None without their record.
    """
    queries = run.queries
    if queries is None or not len(queries):
        return None
    took_ns = int(queries.done_ns.max()) - int(queries.issued_ns.min())
    samples = int(queries.samples.sum())
    if took_ns <= 0 or samples <= 0:
        return None
    return STEP_RATE_METRIC, samples * NS_PER_S / took_ns


def list_blocks(points: Sequence[AbMeasured]) -> list[AbBlock]:
    """Return the blocks all of whose runs are there, in order. One that was disturbed is set aside
    unless too many are.
    """
    blocks: list[AbBlock] = []
    for number in sorted({each.point.block for each in points if each.point.run == BLOCK_RUN}):
        runs = select_block_runs(points, number)
        if [each.point.turn for each in runs] != [*TURNS]:
            continue
        blocks.append(judge_block(build_block(number, runs), blocks))
    return blocks


def judge_block(block: AbBlock, earlier: Sequence[AbBlock]) -> AbBlock:
    """Return a block with why it is set aside, if it is. The one after such a block always counts,
    and so do others once too many were set aside.
    """
    before = [each.measured for each in earlier]
    found = block.measured.disturbed or find_disturbance(
        block.measured.order, block.measured.values, before
    )
    aside = sum(bool(each.disturbed) for each in before)
    can_repeat = not (before and before[-1].disturbed)
    if can_repeat and aside + 1 <= max(1, MAX_REPEATED_SHARE * block.number):
        return replace(block, measured=replace(block.measured, disturbed=found))
    return replace(block, measured=replace(block.measured, disturbed=""), remark=found)


def select_block_runs(points: Sequence[AbMeasured], number: int) -> list[AbMeasured]:
    """Return the runs of a block, by turn."""
    runs = [each for each in points if each.point.block == number and each.runs]
    return sorted(runs, key=lambda each: each.point.turn)


def build_block(number: int, runs: Sequence[AbMeasured]) -> AbBlock:
    """Build a block from its four runs; ValueError if one of them has no speed."""
    first, second, third, fourth = (require_rate(each) for each in runs)
    return AbBlock(
        number=number,
        measured=MeasuredBlock(
            order="".join(each.point.side.upper() for each in runs),
            values=(first, second, third, fourth),
            starts_ns=(
                runs[0].figures.starts_ns,
                runs[1].figures.starts_ns,
                runs[2].figures.starts_ns,
                runs[3].figures.starts_ns,
            ),
            ends_ns=(
                runs[0].figures.ends_ns,
                runs[1].figures.ends_ns,
                runs[2].figures.ends_ns,
                runs[3].figures.ends_ns,
            ),
            disturbed="; ".join(iterate_disturbances(runs)),
        ),
        seconds=sum(each.seconds for each in runs),
    )


def require_rate(run: AbMeasured) -> float:
    """Return the speed of a run; ValueError without one."""
    if run.figures.rate is None:
        raise ValueError("a run of a block without a speed")
    return run.figures.rate


def iterate_disturbances(runs: Sequence[AbMeasured]) -> Iterator[str]:
    """Yield what made the runs of a block unequal besides their sides, by what was recorded beside
    them; what their speeds tell is asked by `find_disturbance`.
    """
    figures = [each.figures for each in runs]
    shares = [each.others_share for each in figures if each.others_share is not None]
    if shares and max(shares) - min(shares) > MAX_LOAD_SPREAD:
        yield (
            f"other programs used {100 * min(shares):.0f} to {100 * max(shares):.0f} % of the cores"
        )
    slowed = [each.throttled_share or 0.0 for each in figures]
    if max(slowed) - min(slowed) > MAX_THROTTLED_SHARE:
        yield f"a GPU's clock was held down in up to {100 * max(slowed):.0f} % of a run"
    pauses = [
        (after.starts_ns - before.ends_ns) / NS_PER_S
        for before, after in zip(figures, figures[1:], strict=False)
    ]
    if max(pauses) > max(MAX_PAUSE_S, MAX_PAUSE_RATIO * min(pauses)):
        yield f"{max(pauses):.0f} s passed between two of its runs"


def decide_blocks(request: AbRequest, blocks: Sequence[AbBlock]) -> AbDecision:
    """Decide by the blocks that are there."""
    return decide([each.measured for each in blocks], request.design)
