"""Systems under test behind a network: KServe's protocol v2 over gRPC, a server for it, and
LoadGen's QDL in front of it.
"""
