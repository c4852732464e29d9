"""Persistent state of a run set: progress, checkpoints, resumption and ledger entries."""
