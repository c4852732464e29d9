"""What the items of benchmarks/gpu.py share: their list, shapes, timing, lines, predictions and
goals.
"""
