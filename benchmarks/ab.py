"""Measures how often the decisions behind `podium ab` err, and how many runs they need, beside five
runs each and Welch's test, and beside a fixed number of blocks.

All sides are simulated: single runs with normal noise on a machine that is steady, or that drifts
by 10 %: in steps (down or up again after 12 runs on average), in slopes (20 runs down, 20 up), or
in both. podium's series end when `decide` does; the naive way runs A five times and then B five
times, on the same machine. The fixed design takes a number of ABBA blocks and tests once, by
Student's t on their logarithms: the least number that finds a difference of 3 % as often as podium
found it (99 % at most). The ratio is podium's runs / the fixed design's.

    python benchmarks/ab.py --series 400 --format json
"""

import argparse
import json
import math
import sys
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from common.figures import hardware
from common.tiny import add_tiny_option, choose_size

from submissions.compare.intervals import compare_log_spreads, compute_welch_p_value
from suite.ab.blocks import BLOCK_RUNS, MeasuredBlock, compute_contrasts, find_disturbance
from suite.ab.decision import AbVerdict, estimate_gain, find_verdict
from suite.ab.design import ABBA, AbDesign, plan_order
from suite.measurement import student
from suite.measurement.intervals import compute_log_spread
from suite.measurement.shares import format_share_interval

SEED: Final = 65
DIFFERENCE: Final = 0.03
NOISES: Final = (0.01, 0.02, 0.03)
"""Coefficients of variation of single runs."""
DRIFT: Final = 0.1
STEP_RUNS: Final = 12
"""Mean number of runs between two steps."""
SLOPE_RUNS: Final = 20
"""Runs from the highest level to the lowest."""
MACHINES: Final = ("steady", "steps", "slopes", "steps and slopes")
NAIVE_RUNS: Final = 5
SIGNIFICANCE: Final = 0.05
MAX_BLOCKS: Final = 100
"""Where a series ends without a decision."""
MAX_FIXED_POWER: Final = 0.99
TIMES: Final = (0, 0, 0, 0)
Array = Any
# Legend: S series, R runs, B blocks, 4 runs of a block.


def draw_levels(generator: np.random.Generator, machine: str, series: int, runs: int) -> Array:
    """Draw logarithms of the machine's speed, [S, R]."""
    low = math.log(1 - DRIFT)
    level_SR = np.zeros((series, runs))
    if "steps" in machine:
        step_SR = generator.random((series, runs)) < 1 / STEP_RUNS
        level_SR += low * (np.cumsum(step_SR, axis=1) % 2)
    if "slopes" in machine:
        phase_S1 = generator.random((series, 1)) * 2 * SLOPE_RUNS
        place_SR = (np.arange(runs) + phase_S1) % (2 * SLOPE_RUNS)
        level_SR += low * (1 - np.abs(place_SR / SLOPE_RUNS - 1))
    return level_SR


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A machine and the noise of single runs."""

    machine: str
    noise: float

    def draw_runs(self, generator: np.random.Generator, series: int, runs: int) -> Array:
        """Draw logarithms of the rates of equal sides, [S, R]."""
        levels_SR = draw_levels(generator, self.machine, series, runs)
        return levels_SR + generator.normal(0.0, self.noise, (series, runs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """How one series of podium's ended."""

    verdict: AbVerdict
    runs: int
    disturbed: int


def run_series(run_R: Array, ratio: float, seed: int) -> Series:
    """Run blocks until the decision, as `podium ab` does."""
    design = AbDesign(difference=DIFFERENCE, seed=seed)
    blocks: list[MeasuredBlock] = []
    verdict = AbVerdict.OPEN
    while verdict == AbVerdict.OPEN and len(blocks) < len(run_R) // BLOCK_RUNS:
        order = plan_order(seed, len(blocks))
        run_4 = run_R[BLOCK_RUNS * len(blocks) :][:BLOCK_RUNS]
        one, two, three, four = (
            math.exp(run) * (ratio if side == "B" else 1.0)
            for run, side in zip(run_4, order, strict=True)
        )
        values = (one, two, three, four)
        blocks.append(
            MeasuredBlock(
                order=order,
                values=values,
                starts_ns=TIMES,
                ends_ns=TIMES,
                disturbed=find_disturbance(order, values, blocks),
            )
        )
        used = [compute_contrasts(each.order, each.values) for each in blocks if not each.disturbed]
        found = estimate_gain(used)
        if found is not None and not blocks[-1].disturbed:
            verdict = find_verdict(found, design)
    disturbed = sum(bool(each.disturbed) for each in blocks)
    return Series(verdict=verdict, runs=BLOCK_RUNS * len(blocks), disturbed=disturbed)


def is_naive_alarm(run_R: Array) -> bool:
    """Return whether Welch's test tells five runs from the next five."""
    sides = [compute_log_spread([math.exp(run) for run in part]) for part in np.split(run_R, 2)]
    if sides[0] is None or sides[1] is None:
        raise ValueError("too few runs")
    found = compare_log_spreads(sides[0], sides[1], more_is_better=True)
    return found is not None and compute_welch_p_value(found) < SIGNIFICANCE


def compute_fixed_power(gain_SB: Array, blocks: int) -> float:
    """Return the share of series that so many blocks tell from no difference."""
    gain_SB = gain_SB[:, :blocks]
    error_S = gain_SB.std(axis=1, ddof=1) / math.sqrt(blocks)
    limit = student.compute_t_quantile(1 - SIGNIFICANCE / 2, blocks - 1)
    return float((np.abs(gain_SB.mean(axis=1)) > limit * error_S).mean())


def find_fixed_blocks(case: Case, power: float, series: int) -> int:
    """Return the least number of blocks of a fixed design that has this power."""
    generator = np.random.default_rng(SEED + 1)
    run_SB4 = case.draw_runs(generator, series, BLOCK_RUNS * MAX_BLOCKS).reshape(
        series, MAX_BLOCKS, BLOCK_RUNS
    )
    sign_SB = np.array(
        [
            [1 if plan_order(seed, block) == ABBA else -1 for block in range(MAX_BLOCKS)]
            for seed in range(series)
        ]
    )
    gain_SB = sign_SB * (run_SB4 @ np.array([-0.5, 0.5, 0.5, -0.5])) + math.log1p(DIFFERENCE)
    return next(
        (
            blocks
            for blocks in range(2, MAX_BLOCKS)
            if compute_fixed_power(gain_SB, blocks) >= power
        ),
        MAX_BLOCKS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Of one case."""

    machine: str
    noise: float
    series: int
    naive_alarms: int
    false_alarms: int
    shown_equal: int
    """Of equal sides."""
    found: int
    """Of sides that differ by 3 %."""
    false_equal: int
    """Of sides that differ by 3 %."""
    equal_runs: float
    """Mean runs of equal sides."""
    differing_runs: float
    disturbed: float
    """Share of the blocks that were repeated."""
    fixed_runs: int
    """Of the fixed design with the same power."""
    fixed_runs_80: int
    """Of one that finds 80 %."""
    ratio_equal: float
    ratio_differing: float


def measure(case: Case, series: int, fixed_series: int) -> Measured:
    """Run all series of a case."""
    generator = np.random.default_rng(SEED)
    naive_SR = case.draw_runs(generator, series, 2 * NAIVE_RUNS)
    ended = {}
    for ratio in (1.0, 1 + DIFFERENCE):
        drawn_SR = case.draw_runs(generator, series, BLOCK_RUNS * MAX_BLOCKS)
        ended[ratio] = [run_series(run_R, ratio, seed) for seed, run_R in enumerate(drawn_SR)]
    equal, differing = ended.values()
    found = sum(each.verdict == AbVerdict.B_FASTER for each in differing)
    runs = [float(np.mean([each.runs for each in side])) for side in (equal, differing)]
    fixed = BLOCK_RUNS * find_fixed_blocks(case, min(found / series, MAX_FIXED_POWER), fixed_series)
    every = [*equal, *differing]
    return Measured(
        machine=case.machine,
        noise=case.noise,
        series=series,
        naive_alarms=sum(map(is_naive_alarm, naive_SR)),
        false_alarms=sum(
            each.verdict in (AbVerdict.A_FASTER, AbVerdict.B_FASTER) for each in equal
        ),
        shown_equal=sum(each.verdict == AbVerdict.NO_DIFFERENCE for each in equal),
        found=found,
        false_equal=sum(each.verdict == AbVerdict.NO_DIFFERENCE for each in differing),
        equal_runs=runs[0],
        differing_runs=runs[1],
        disturbed=BLOCK_RUNS
        * sum(each.disturbed for each in every)
        / sum(each.runs for each in every),
        fixed_runs=fixed,
        fixed_runs_80=BLOCK_RUNS * find_fixed_blocks(case, 0.8, fixed_series),
        ratio_equal=runs[0] / fixed,
        ratio_differing=runs[1] / fixed,
    )


def print_case(one: Measured) -> None:
    """Print shares with their 95 % intervals (Wilson)."""
    print(f"{one.machine}, noise {100 * one.noise:.0f} %, {one.series} series each")
    for name, count in (
        ("naive false alarms", one.naive_alarms),
        ("false alarms", one.false_alarms),
        ("equal shown equal", one.shown_equal),
        ("3 % found", one.found),
        ("3 % called equal", one.false_equal),
    ):
        print(f"  {name:<19} {format_share_interval(count, one.series)}")
    print(
        f"  runs: {one.equal_runs:.1f} of equal sides, {one.differing_runs:.1f} of 3 %; fixed"
        f" design {one.fixed_runs} (80 %: {one.fixed_runs_80}); ratio {one.ratio_equal:.2f} and"
        f" {one.ratio_differing:.2f}; {100 * one.disturbed:.1f} % of blocks repeated",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--series", type=int, default=400, help="series of each kind")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    add_tiny_option(parser)
    options = parser.parse_args()
    series, fixed_series = choose_size(options.series, 3), choose_size(4000, 20)
    cases = [Case(machine=machine, noise=noise) for machine in MACHINES for noise in NOISES]
    found = []
    for case in choose_size(cases, cases[3:4]):
        found.append(measure(case, series, fixed_series))
        if options.format == "text":
            print_case(found[-1])
    if options.format == "text":
        print(hardware())
        return
    json.dump({"hardware": hardware(), "cases": [asdict(each) for each in found]}, sys.stdout)
    print()


if __name__ == "__main__":
    main()
