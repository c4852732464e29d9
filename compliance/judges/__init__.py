"""One judge per kind of round: which documents a path contains, and which rules apply to them."""
