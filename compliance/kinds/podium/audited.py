"""List the rules about LoadGen runs that do not apply to the runs of a compliance test, because the
test changes the required settings.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from compliance.kinds.podium.documents.audit import Audit
from compliance.verdict import Finding

UNIQUE_SAMPLE_RULES: Final = frozenset(
    f"loadgen.{name}"
    for name in ("settings", "draws", "valid", "queries", "duration", "effective", "summary")
)
"""A run of unique samples ends with the last sample, whatever number LoadGen was given."""
INVALID_RUN_RULES: Final = frozenset(
    f"loadgen.{name}"
    for name in ("valid", "duration", "errors", "summary", "queries", "early_stopping", "bound")
)
"""Rules about why LoadGen calls a run INVALID: a system that is faster than its result runs out of
queries.
"""
RULES_REPLACED_BY_SETTING: Final[Mapping[str, frozenset[str]]] = {
    "accuracy_log_rng_seed": frozenset({"loadgen.binding"}),
    "accuracy_log_sampling_target": frozenset({"loadgen.sampling"}),
    "accuracy_log_probability": frozenset({"loadgen.settings", "loadgen.draws", "answers.sampled"}),
    "qsl_rng_seed": frozenset({"loadgen.seeds"}),
    "performance_issue_same": frozenset({"loadgen.settings", "loadgen.draws"}),
    "performance_issue_unique": UNIQUE_SAMPLE_RULES,
}
"""LoadGen's setting -> rules; rules/podium/audits/runs.py checks its value instead."""


def collect_replaced_rules(settings: Mapping[str, object]) -> frozenset[str]:
    """Return the rules that these settings replace; only settings of a test are in it, and the
    test's rules decide which it may have.
    """
    return frozenset[str]().union(
        *(RULES_REPLACED_BY_SETTING.get(name, frozenset()) for name in settings)
    )


def downgrade_audit_finding(audit: Audit, finding: Finding) -> Finding:
    """Return a finding about a test's run; that LoadGen calls it INVALID is no error of the result
    if the test failed.
    """
    if finding.rule in INVALID_RUN_RULES and audit.failure_severity:
        return replace(finding, severity=audit.failure_severity)
    return finding
