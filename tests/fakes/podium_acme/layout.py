"""What a run of Acme's consists of."""

from collections.abc import Iterable

from compliance.recognition.path_kind import PathKind, RecognisedPath
from compliance.verdict import ResultKind
from compliance.walk import JudgingAids, Piece, ResultPart
from podium_acme.document import read_acme_run
from podium_acme.recognition import ACME_LOG
from podium_acme.round import AcmeRound, load_acme_round


class AcmeLayout:
    """One log."""

    def __init__(self, round: AcmeRound) -> None:
        self.round = round
        self.places = {PathKind.RUN: self.open_run}

    def open_run(self, target: RecognisedPath) -> Iterable[Piece]:
        """Open a run."""
        run = read_acme_run(target.path / ACME_LOG, self.round)
        return [ResultPart(kind=ResultKind.RUN, path=target.path, contents=[run])]


def build_acme_layout(round_name: str, _: JudgingAids) -> AcmeLayout:
    """Build the layout of a round."""
    return AcmeLayout(load_acme_round(round_name))
