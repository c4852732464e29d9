"""What somebody may do to a finished result of podium, for `benchmarks/forgeries.py`."""
