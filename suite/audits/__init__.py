"""MLPerf's compliance tests of a served result: their settings and limits by round, and the verdict
from the numbers of their runs.
"""
