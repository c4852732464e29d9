"""MLPerf Inference v0.5 and v0.7, whose LoadGen wrote text."""

from typing import Final

from suite.rounds.kind import RoundKind

KIND: Final = RoundKind(
    name="inference-text",
    rounds="compliance.kinds.inference_text.rounds",
    load="compliance.kinds.inference_text.round:load_inference_text_round",
    layout="compliance.kinds.inference_text.layout:build_inference_text_layout",
    rules="compliance.kinds.inference_text.rules",
    seed_table="loadgen",
    evidence="compliance.kinds.inference_text.recognition:read_text_evidence",
    score="compliance.kinds.inference_text.score:read_text_entry_values",
    describe_system="compliance.kinds.inference_text.figures:describe_text_system",
    list_runs="compliance.recognition.loadgen_folders:find_performance_folders",
    read_run="compliance.kinds.inference_text.figures:read_text_figures",
    form="compliance.kinds.inference_text.form:describe_text_form",
)
