"""The built-in workloads: one folder per benchmark with the same file names in each; all models
live here.
"""
