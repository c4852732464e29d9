"""Runs of the MLPerf Endpoints client."""

from typing import Final

from suite.rounds.kind import RoundKind

KIND: Final = RoundKind(
    name="endpoints",
    rounds="compliance.kinds.endpoints.rounds",
    layout="compliance.kinds.endpoints.layout:build_endpoints_layout",
    rules="compliance.kinds.endpoints.rules",
    places="compliance.kinds.endpoints.recognition:PLACES",
    score="compliance.kinds.endpoints.score:read_client_values",
    index_run="compliance.kinds.endpoints.score:index_client_run",
    list_runs="compliance.kinds.endpoints.figures:list_client_runs",
    read_run="compliance.kinds.endpoints.figures:read_client_run",
)
