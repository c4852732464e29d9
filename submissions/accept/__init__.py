"""`podium accept`: contracts about a workload's figures, that a buyer writes, a seller runs and the
buyer checks.
"""
