"""Sessions of the MLPerf Power workflow (mlcommons/power-dev): their files, what must hold of them,
and their energy.
"""
