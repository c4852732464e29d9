"""A results tree that no run made, and a judge that says what a test wants."""

from small_trees import objection, objections, results

__all__ = ["objection", "objections", "results"]
