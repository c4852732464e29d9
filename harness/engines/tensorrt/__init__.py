"""TensorRT: engine building, execution and the engine."""
