"""Mutants of inference entries since v1.0."""
