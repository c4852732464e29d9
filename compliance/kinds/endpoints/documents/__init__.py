"""Results of the MLPerf Endpoints client, which measures without LoadGen."""
