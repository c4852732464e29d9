"""KServe's protocol v2 over gRPC: servers to measure, podium's own server and Triton.

Entry points: `grpc` of the groups `podium.sites` and `podium.servers`.
"""
