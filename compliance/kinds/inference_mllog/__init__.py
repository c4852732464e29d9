"""MLPerf Inference since v1.0, whose LoadGen writes mllog records."""

from typing import Final

from suite.rounds.kind import RoundKind

KIND: Final = RoundKind(
    name="inference-mllog",
    rounds="compliance.kinds.inference_mllog.rounds",
    load="compliance.kinds.inference_mllog.round:load_inference_mllog_round",
    layout="compliance.kinds.inference_mllog.layout:build_inference_mllog_layout",
    rules="compliance.kinds.inference_mllog.rules",
    shared_rules=("endpoints",),
    seed_table="rules",
    evidence="compliance.kinds.inference_mllog.recognition:read_mllog_evidence",
    score="compliance.kinds.inference_mllog.score:read_mllog_entry_values",
    describe_system="compliance.kinds.inference_mllog.figures:describe_mllog_system",
    list_runs="compliance.kinds.inference_mllog.figures:list_mllog_runs",
    read_run="compliance.kinds.inference_mllog.figures:read_mllog_figures",
    find_benchmark="compliance.kinds.inference_mllog.figures:find_mllog_benchmark",
    form="compliance.kinds.inference_mllog.form:describe_mllog_form",
)
