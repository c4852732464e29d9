"""LoadGen runs, one child process each: when (schedule), which sample (samples), who answers (batching), who holds the run (session)."""
