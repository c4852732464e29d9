"""Times and drives workloads: the timed training loop and the LoadGen harness. Workloads and
engines are entry points.
"""
