"""Meters included in podium: programs that speak the text protocol of docs/POWER.md, and examples
for others.
"""
