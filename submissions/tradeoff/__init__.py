"""Throughput against latency over systems, engines, precisions and batches."""
