"""Code shared by at least two workloads."""
