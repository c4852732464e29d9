"""Rules about results of the MLPerf Endpoints client."""
