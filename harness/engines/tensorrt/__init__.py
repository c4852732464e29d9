"""TensorRT: building, execution and the engine."""
