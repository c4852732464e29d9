"""podium's own round."""

from typing import Final

from suite.rounds.kind import RoundKind

KIND: Final = RoundKind(
    name="podium",
    published=False,
    load="suite.registry:load_round",
    layout="compliance.kinds.podium.layout:build_podium_layout",
    rules="compliance.kinds.podium.rules",
    evidence="compliance.kinds.podium.recognition:read_podium_evidence",
    check_settings="compliance.kinds.podium.settings_check:SETTINGS_CHECK",
    score="compliance.kinds.podium.results.score:read_podium_values",
    describe_system="compliance.kinds.podium.results.machine:describe_podium_system",
    list_runs="compliance.recognition.tree_path:iterate_performance_runs",
    read_run="compliance.kinds.podium.results.loadgen_runs:read_podium_run",
    read_training_runs="compliance.kinds.podium.results.drawn_runs:read_podium_training_runs",
    read_traits="compliance.kinds.podium.results.traits:read_podium_traits",
)
