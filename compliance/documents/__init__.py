"""The documents that rules check, parsed from files: training logs and sets, LoadGen runs and
entries, systems, submissions and bundles.
"""
