"""The table of engines and precisions: what can be served, which runs exist already, what is left
to measure.
"""
