"""The fake workload, trained until its loss is low enough, and counted in samples."""

import math
from collections.abc import Iterator, Mapping

from podium_fakes.fake import FakeTraining
from suite.rounds import HyperValue
from suite.workload import Block, Scores


class DescentTraining(FakeTraining):
    """Implements suite.workload.Training."""

    def facts(self) -> Mapping[str, HyperValue]:
        """Give sizes."""
        return {**super().facts(), "metric_signature": "a loss for tests"}

    def blocks(self) -> Iterator[Block]:
        """Evaluate as the row says."""
        row = self.run.round.benchmark("descent").training[self.run.profile]
        for first in range(1, row.max_epochs + 1, row.evaluate_every_epochs):
            yield range(first, min(first + row.evaluate_every_epochs, row.max_epochs + 1))

    def evaluate(self) -> Scores:
        """Give a loss that is above 1 for long, as no accuracy is; NaN where that is asked for."""
        (share,) = super().evaluate().values()
        return {"loss": -5 * math.log(self.weight) if math.isfinite(share) else share}
