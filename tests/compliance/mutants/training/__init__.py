"""Mutants of training logs and sets."""
