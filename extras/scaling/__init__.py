"""`podium scaling`: predicts step times of data-parallel training on many devices, with a model
fitted to published points.
"""
