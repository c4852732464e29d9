"""Contracts, rounds, registry and file layout. It imports no framework and
no other package of podium."""

__version__ = "0.2.0"
