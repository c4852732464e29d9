"""Persistent state of a training set: progress, checkpoints, resumption and ledger entries."""
