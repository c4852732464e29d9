"""A real bundle that the judge accepts, a key made by ssh-keygen, and podium as a user calls it."""

from signed_bundles import bundle, lab, packed, podium, without_programs

__all__ = ["bundle", "lab", "packed", "podium", "without_programs"]
