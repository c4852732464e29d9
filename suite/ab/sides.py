"""What `podium ab` compares: two sides, each measured by processes of its own, and the runs of
both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from suite.ab.design import AbDesign, plan_order
from suite.rounds import HyperValue

AB_KIND: Final = "ab"
SIDE_A: Final = "a"
SIDE_B: Final = "b"
SIDES: Final = (SIDE_A, SIDE_B)
WARM_UP_RUN: Final = "warm-up"
ACCURACY_RUN: Final = "accuracy"
BLOCK_RUN: Final = "block"
THREADS_OPTION: Final = "threads"
TURNS: Final = (1, 2, 3, 4)
"""Places of the runs in a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbSide:
    """One side: what its processes are started with."""

    named: tuple[str, ...]
    """What the command says of this side alone, as it was typed."""
    options: Mapping[str, str]
    """Option of `podium infer` or `podium train` -> value: engine, precision, threads, device,
    checkpoint.
    """
    settings: Mapping[str, HyperValue] = field(default_factory=dict)
    """Of both sides and of this one."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that its processes have besides the command's."""
    endpoint: str = ""
    """Address of its server; empty for a system in LoadGen's process."""
    python: str = ""
    """Interpreter of another installation; empty: the command's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbRequest:
    """What a command asked for."""

    a: AbSide
    b: AbSide
    workload: str
    """Empty for the user's own prompts."""
    profile: str
    scenario: str
    """Of LoadGen, as on the command line."""
    shared: tuple[str, ...]
    """Options that the processes of both sides have: data, prompts."""
    difference: float
    """Below which a difference does not matter, 0-1."""
    alpha: float
    """Most false alarms, 0-1."""
    power: float
    """Least share of true differences of that size that are found, 0-1."""
    seed: int
    """From which the order of each block follows."""
    minutes: float
    """Budget of all runs; another one continues the same comparison."""
    seconds: float
    """Least timed work of a run."""
    accuracy: bool
    """Whether both sides answer the accuracy set."""
    training: bool = False
    """Whether optimizer steps of the training are timed, as LoadGen's queries in MultiStream,
    instead of answers.
    """

    @property
    def design(self) -> AbDesign:
        """Return the design by which it is decided."""
        return AbDesign(
            difference=self.difference, alpha=self.alpha, power=self.power, seed=self.seed
        )

    def get_side(self, name: str) -> AbSide:
        """Return a side by its name."""
        return {SIDE_A: self.a, SIDE_B: self.b}[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class AbPoint:
    """One run."""

    run: str
    """warm-up: not counted; accuracy: the accuracy set; block: a run of a block."""
    side: str
    block: int = 0
    """From 1; 0 of a run before the blocks."""
    turn: int = 0
    """In its block, from 1."""


def list_preparations(request: AbRequest) -> Sequence[AbPoint]:
    """List the runs before the first block: each side is warm, and its speed known."""
    runs = (WARM_UP_RUN, ACCURACY_RUN) if request.accuracy else (WARM_UP_RUN,)
    return [AbPoint(run=run, side=side) for run in runs for side in SIDES]


def plan_block(request: AbRequest, number: int) -> Sequence[AbPoint]:
    """List the runs of a block, from 1, in the order that follows from the seed."""
    order = plan_order(request.seed, number - 1)
    return [
        AbPoint(run=BLOCK_RUN, side=side.casefold(), block=number, turn=turn)
        for turn, side in zip(TURNS, order, strict=True)
    ]


def describe_side(side: AbSide) -> str:
    """Name a side by what the command says of it."""
    return " ".join(side.named) or "as the command says of both"
