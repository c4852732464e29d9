"""The parts of benchmarks/fuzz.py: seeds, changes, archives and readers."""
