"""Rules for published MLPerf Training rounds."""
