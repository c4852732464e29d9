"""Any ONNX file as a bare network: read and checked, with its shapes, its inputs, and its system
under test.
"""
