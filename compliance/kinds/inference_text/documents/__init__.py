"""Published MLPerf Inference results, as submitted: LoadGen runs, entries, organisations."""
