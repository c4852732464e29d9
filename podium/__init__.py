"""Name for `python -m podium`; everything else is in the five packages beside it."""
