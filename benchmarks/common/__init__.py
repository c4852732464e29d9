"""Code shared by several benchmarks: figures and their hardware, systems under test, devices that
only wait.
"""
