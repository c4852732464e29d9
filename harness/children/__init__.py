"""Child processes: how they start and end, the template that they are forked from, and a task that
runs in one.
"""
