"""`podium scaling`: step times of data-parallel training on many devices, from a model fitted to
published points.
"""
