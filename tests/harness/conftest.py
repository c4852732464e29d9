"""What tests of the harness have in common."""

from harness_fixtures import light, no_loop_of_a_browser, quiet_host, samplers_of_any_cache

__all__ = ["light", "no_loop_of_a_browser", "quiet_host", "samplers_of_any_cache"]
