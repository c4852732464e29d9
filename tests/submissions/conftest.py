"""Results trees that no run made, and a judge that says what a test wants."""

from small_trees import (
    make_log,
    make_run,
    make_system,
    make_tree,
    objection,
    objections,
    results,
)

__all__ = ["make_log", "make_run", "make_system", "make_tree", "objection", "objections", "results"]
