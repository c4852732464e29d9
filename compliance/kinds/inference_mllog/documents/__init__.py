"""Published MLPerf Inference results since v1.0, whose LoadGen logs are mllog lines."""
