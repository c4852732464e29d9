"""Parts of benchmarks/honest.py: what is run, what disturbs it, and how its results are judged."""
