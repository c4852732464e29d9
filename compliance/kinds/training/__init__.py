"""MLPerf Training's published rounds, since v0.6."""

from typing import Final

from suite.rounds.kind import RoundKind

KIND: Final = RoundKind(
    name="training",
    rounds="compliance.kinds.training.rounds",
    load="compliance.kinds.training.round:load_training_round",
    layout="compliance.kinds.training.layout:build_training_layout",
    rules="compliance.kinds.training.rules",
    evidence="compliance.kinds.training.evidence:read_training_evidence",
    formal_keys="compliance.kinds.training.round:collect_rule_keys",
    check_settings="compliance.kinds.training.settings_check:SETTINGS_CHECK",
    score="compliance.kinds.training.score:read_published_training_values",
    describe_system="compliance.kinds.training.figures:describe_training_system",
    read_training_runs="compliance.kinds.training.drawn_runs:read_published_training_runs",
    read_traits="compliance.kinds.training.figures:read_published_training_traits",
    list_benchmarks="compliance.kinds.training.figures:list_training_benchmarks",
    form="compliance.kinds.training.form:describe_training_form",
)
