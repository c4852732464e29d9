"""`podium sweep`: throughput and latency against batch size; every point is a LoadGen run of its
own.
"""
