"""Parsers of training logs: the mllog dialect and its predecessors."""
