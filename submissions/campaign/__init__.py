"""`podium run`: a campaign of training, serving, judging and packing, its state, its audits, and
how it replaces an earlier one.
"""
