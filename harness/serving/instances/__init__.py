"""Several instances of a system under test behind one LoadGen: where they run, the process of each,
and what represents them.
"""
