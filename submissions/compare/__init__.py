"""Comparisons: what must be equal is equal or there is no ratio; a ratio stands with its interval and a verdict, or it is not tested."""
