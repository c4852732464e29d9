"""Runs of the MLPerf Endpoints client."""

from typing import Final

from suite.rounds.kind import RoundKind

KIND: Final = RoundKind(
    name="endpoints",
    rounds="compliance.kinds.endpoints.rounds",
    layout="compliance.kinds.endpoints.layout:build_endpoints_layout",
    rules="compliance.kinds.endpoints.rules",
    places="compliance.kinds.endpoints.recognition:PLACES",
)
