"""Inference engines behind the seam of suite/engine.py."""
