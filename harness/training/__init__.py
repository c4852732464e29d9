"""The training half: the timed loop, a set of runs, logs, checkpointing and export."""
