"""Curves: throughput against latency over the number of requests in flight, one LoadGen run per
point.
"""
