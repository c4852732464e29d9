"""`podium ab`: two sides in turn, each run in processes of its own, until it is known which one is
faster.
"""
