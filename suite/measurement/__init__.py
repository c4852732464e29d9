"""Measurement arithmetic shared by several packages: Student's t, power readings."""
