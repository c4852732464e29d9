"""Published MLPerf Inference results, as filed: LoadGen runs, entries, organisations."""
