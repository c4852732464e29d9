"""Readers for untrusted records of runs: queries and telemetry."""
