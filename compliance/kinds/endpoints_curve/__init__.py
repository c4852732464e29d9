"""Submissions of curves of MLPerf Endpoints."""

from typing import Final

from suite.rounds.kind import RoundKind

KIND: Final = RoundKind(
    name="endpoints-curve",
    load="suite.registry:load_endpoints_round",
    layout="compliance.kinds.endpoints_curve.layout:build_curve_layout",
    rules="compliance.kinds.endpoints_curve.rules",
    shared_rules=("endpoints",),
    places="compliance.kinds.endpoints_curve.recognition:PLACES",
    read_curves="compliance.kinds.endpoints_curve.curves:read_scored_curves",
    list_run_keys="compliance.kinds.endpoints_curve.curves:list_point_run_keys",
    form="compliance.kinds.endpoints_curve.form:describe_curve_form",
)
