"""What benchmarks/gpu.py measures: a module for each kind of work."""
