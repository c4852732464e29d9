"""A workload that trains in milliseconds, without a framework, and can be told to misbehave.

`tests/fakes` on sys.path (or PYTHONPATH) is enough: the folder beside this one holds its entry
points.
"""

STEP_MS = "PODIUM_FAKE_STEP_MS"
"""Variable that lengthens each training step of a process that a test stops; no setting, so that
the run goes on at full speed, as the same one.
"""
EVALUATION_S = "PODIUM_FAKE_EVALUATION_S"
"""The same for each evaluation."""
