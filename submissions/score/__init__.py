"""Scores of results: one row per training set and inference scenario."""
