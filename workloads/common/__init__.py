"""What at least two workloads share."""
