"""Mutants of inference entries."""
