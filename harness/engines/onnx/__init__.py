"""ONNX Runtime: export, lowering, quantization and the engine."""
