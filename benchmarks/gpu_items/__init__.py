"""What benchmarks/gpu.py measures: one module for each kind of work, and what they share."""
