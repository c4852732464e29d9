"""The commands on results and bundles, one per file. They import little, so that `--help` starts
fast.
"""
