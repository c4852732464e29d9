"""A kind of round as another package brings it: Acme's own benchmark, of which a run is a folder
with one log of four lines.

    acme 2026
    items 1200
    seconds 10.0
    rate 120.0
"""

from suite.rounds.kind import RoundKind

KIND = RoundKind(
    name="acme",
    rounds="podium_acme.rounds",
    load="podium_acme.round:load_acme_round",
    layout="podium_acme.layout:build_acme_layout",
    rules="podium_acme.rules",
    evidence="podium_acme.recognition:read_acme_evidence",
    places="podium_acme.recognition:PLACES",
)
