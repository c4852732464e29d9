"""Meters included in podium: programs that speak the text protocol of
docs/reference/power-meters.md, and examples for others.
"""
