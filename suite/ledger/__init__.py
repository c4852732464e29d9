"""The ledger: every attempt at a workload in a results folder, whether its result was kept or not,
as a hash chain.
"""
