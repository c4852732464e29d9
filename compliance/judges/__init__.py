"""One judge for each kind of round: which documents a path holds, and which rules are applied to them."""
