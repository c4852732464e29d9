"""Readers of untrusted run records: queries and telemetry."""
