"""What the commands of the command line share: parameter names, output level, listings and the
template of a new workload.
"""
