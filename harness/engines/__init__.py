"""Inference engines behind the interface in suite/engine.py."""
