"""A workload that trains in milliseconds, without a framework, and can be told to misbehave.

`tests/fakes` on sys.path (or PYTHONPATH) is enough: the folder beside this one holds its entry points.
"""
