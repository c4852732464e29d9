"""What several benchmarks share: figures and their hardware, systems under test, devices that only
wait.
"""
