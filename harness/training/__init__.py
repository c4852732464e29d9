"""Training: the timed loop, run sets, logs, checkpointing and export."""
