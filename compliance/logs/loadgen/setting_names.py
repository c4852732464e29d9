"""Names of LoadGen's settings, which its logs write with a prefix: effective_qsl_rng_seed."""

from typing import Final

LOADGEN_SEEDS: Final = ("qsl_rng_seed", "sample_index_rng_seed", "schedule_rng_seed")
"""Seeds that a round sets."""
EQUAL_SAMPLE_SETTINGS: Final = (
    "performance_issue_unique",
    "performance_issue_same",
    "performance_issue_same_index",
)
"""Settings that only compliance tests change."""


def normalise_setting_name(name: str) -> str:
    """Normalise a setting's name across both blocks of a detail log before 1.0 and its summary:
    `min_duration (ms)` is min_duration_ms.
    """
    return name.strip().replace(" (ms)", "_ms").replace(" (ns)", "_ns").replace("*", "").strip()
