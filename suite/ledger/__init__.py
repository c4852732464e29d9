"""The ledger: every attempt of a workload in a results folder, whether its result was kept or not, as a chain of hashes."""
