"""Compare results. Only comparable results get a ratio, with an interval and a conclusion or marked
as not tested.
"""
