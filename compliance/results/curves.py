"""A curve as a record: the figures of its points, and what the judge says of them."""

from dataclasses import dataclass
from typing import Final

from suite.result import Machine, ScoredPoint
from suite.rounds.endpoints_curve import Regions
from suite.served_identity import ServedIdentity

WHOLE_RUN: Final = "whole_run"
STEADY_STATE: Final = "steady_state"
ENDPOINTS_ORIGIN: Final = "MLPerf Endpoints"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredCurve:
    """The figures of one system and model."""

    path: str
    """Its folder; as the user would write it, once all are read."""
    org: str
    submission: str
    system: str
    model: str
    data_set: str
    """By the benchmark's row; empty if the round names none."""
    dataset: str
    """As disclosed, in free text."""
    division: str
    round: str
    cohort: str
    precision: str | None
    tokenizer: str
    """With which the client counted the tokens; empty if no configuration names it."""
    c_min: int | None
    c_max: int | None
    regions: Regions | None
    machine: Machine
    kw: float | None
    """Provisioned power of the whole system."""
    points: tuple[ScoredPoint, ...]
    """By rising concurrency; only the one that was asked for, if it was."""
    point_count: int
    """How many points the curve has."""
    peak: float | None
    """The highest system_tps of all points with a fixed number of requests in flight."""
    offline_tps: float | None
    """The rate of the Offline result."""
    compliant: bool
    """Whether the judge finds no error in the curve, its points, its system's power and what the
    submission's curves share.
    """
    failed_rules: tuple[str, ...] = ()
    """The rules with an error about the curve, but about none of its points."""
    runs: int = 1
    """Of each point, at least: a study may repeat them."""
    served: ServedIdentity | None = None
    """What the servers of a curve that podium traced run, and who said it; None of all others."""
    origin: str = ENDPOINTS_ORIGIN
    """What its points are of, in words."""
