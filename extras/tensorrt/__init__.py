"""TensorRT: an engine, and `podium build`, which builds for GPUs that need not be here."""
