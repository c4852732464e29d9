"""Compare results. Only comparable results get a ratio, with an interval and a verdict or marked as
not tested.
"""
