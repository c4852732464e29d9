"""Sealed bundles, scores and comparisons of results folders."""
