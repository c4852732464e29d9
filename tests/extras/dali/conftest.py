"""Tiny pictures, as the tests of workloads have them."""

from tiny_pictures import make_run, tiny

__all__ = ["make_run", "tiny"]
