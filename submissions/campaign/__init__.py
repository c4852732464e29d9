"""`podium run`: the campaign of training, serving, checking and packing, its state, its audits, and
how it replaces an earlier one.
"""
