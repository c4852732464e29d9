"""Published MLPerf Training results: logs, sets, system descriptions, organisations."""
