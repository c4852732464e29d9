"""Logs that only this kind of round has."""
