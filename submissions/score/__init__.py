"""Scores of results: one row per run set and inference scenario."""
