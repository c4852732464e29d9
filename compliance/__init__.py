"""Decide from a result's files alone whether it is compliant."""
