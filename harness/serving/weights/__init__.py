"""Weights that were not trained here: random ones, and imported ones."""
