"""Sealed packages, scores and comparisons of results folders."""
