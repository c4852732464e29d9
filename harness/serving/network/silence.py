"""How long servers may be silent, and the name by which LoadGen knows them."""

from typing import Final

SUT_NAME_PREFIX: Final = "Network SUT"
"""inference_rules.adoc, Network Division: the SUT's name contains it."""
OFFLINE_SILENCE_LIMIT_S: Final = 60.0
SILENCE_LATENCY_BOUNDS: Final = 10
MIN_SILENCE_LIMIT_S: Final = 10.0
"""House rules: how long no answer at all may come. A server that is slow still answers; one that is
frozen does not.
"""
