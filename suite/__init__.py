"""Contracts, rounds, registry and file layout. Standard library only; click in cli.py alone."""

__version__ = "0.1.0"
