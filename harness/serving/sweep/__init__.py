"""`podium sweep`: batch against throughput and latency; every point is a LoadGen run of its own."""
