"""`podium audit`: MLPerf's compliance tests of a served result, each in turns with reference
runs.
"""
