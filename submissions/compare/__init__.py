"""Comparisons: a ratio only between comparable results, with an interval and a verdict, or marked
as not tested.
"""
