"""Servers that podium starts itself, on this machine, and ends with the command: its own, and those
of other packages.
"""
