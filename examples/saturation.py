"""A study of your own in one file: how large a batch has to be before larger ones gain nothing.

Offline is measured with batches of 1, 2, 4 and so on samples, until twice the batch gains less than
`--gain`. Register it in your package:

    [project.entry-points."podium.studies"]
    saturation = "saturation:STUDY"

Then `podium study saturation resnet50` measures it, and the same command continues after a kill;
`podium check`, `podium report` and `podium publish` take its folder like any study's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from suite.columns import Column, Table
from suite.loadgen.headline import HEADLINE_METRICS
from suite.loadgen.scenario import Scenario
from suite.studies.kind import (
    PlannedRun,
    StudiedRow,
    StudiedSystem,
    StudyKind,
    build_figure_column,
)
from suite.studies.points import StudiedPoint
from suite.studies.run_facts import RunFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationRequest:
    """What a command asked for."""

    gain: float
    """Share by which twice the batch has to be faster, so that a larger one is tried."""
    most: int
    """The largest batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One point."""

    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The figures of a run."""

    samples_per_second: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Saturation:
    """What the points say."""

    batch: int | None
    """The smallest batch after which twice as many samples gain too little; None: not known yet."""


Measured = StudiedPoint[Batch, Rate]


TABLE: Table[StudiedRow] = Table(
    columns=(
        Column("batch", lambda row: row.point.samples, numeric=True),
        build_figure_column("samples_per_second", "samples/s", 1),
    )
)


class SaturationStudy(StudyKind[SaturationRequest, Batch, Rate]):
    """Throughput in Offline over the size of a batch."""

    name = "saturation"
    note = "throughput over the batch: a study, not a result"
    help = "Find the batch size of WORKLOAD from which larger ones gain nothing, in Offline."
    request = SaturationRequest
    point = Batch
    table = TABLE
    chart = ("batch", "samples_per_second")
    options = (
        click.Option(["--gain"], type=click.FloatRange(0, 1), default=0.05, show_default=True),
        click.Option(["--most"], type=click.IntRange(1, 4096), default=64, show_default=True),
    )

    def list_own_settings(self, values: Mapping[str, Any], is_remote: bool) -> Mapping[str, str]:
        """Refuse `--set` of the batch, which the plan decides."""
        return {"batching.max_batch": "the plan"}

    def build_request(self, values: Mapping[str, Any], system: StudiedSystem) -> SaturationRequest:
        """Take the options as they are."""
        return SaturationRequest(gain=values["gain"], most=values["most"])

    def choose_next_point(
        self, request: SaturationRequest, done: Sequence[Measured]
    ) -> Batch | None:
        """Double the batch as long as that gains enough."""
        if not done:
            return Batch(samples=1)
        if has_gained_little(request, done) or 2 * done[-1].point.samples > request.most:
            return None
        return Batch(samples=2 * done[-1].point.samples)

    def name_point(self, point: Batch) -> str:
        """Name the folder of a point."""
        return f"batch-{point.samples}"

    def describe_run(self, request: SaturationRequest, point: Batch) -> PlannedRun:
        """Run Offline as the round asks, with batches of that size."""
        return PlannedRun(scenario=Scenario.OFFLINE, settings={"batching.max_batch": point.samples})

    def compute_figures(
        self, request: SaturationRequest, point: Batch, run: RunFacts
    ) -> Rate | None:
        """Read LoadGen's rate."""
        rate = run.find_number(HEADLINE_METRICS[Scenario.OFFLINE][1])
        return None if rate is None else Rate(samples_per_second=rate)

    def compute_answer(
        self, requests: Sequence[SaturationRequest], points: Sequence[Measured]
    ) -> Saturation:
        """Name the last batch but one, once the last one gained too little."""
        is_known = has_gained_little(requests[-1], points)
        return Saturation(batch=points[-2].point.samples if is_known else None)

    def describe_answer(
        self, request: SaturationRequest, answer: Saturation, points: Sequence[Measured]
    ) -> Sequence[str]:
        """Say it in a line."""
        told = "not reached" if answer.batch is None else f"at batch {answer.batch}"
        return (f"saturation: {told}",)


def has_gained_little(request: SaturationRequest, done: Sequence[Measured]) -> bool:
    """Return whether the last batch was hardly faster than the one before."""
    if len(done) < 2:
        return False
    before, last = (each.figures.samples_per_second for each in done[-2:])
    return last < (1 + request.gain) * before


STUDY = SaturationStudy()
