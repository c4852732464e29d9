"""Rules for published MLPerf Inference rounds."""
