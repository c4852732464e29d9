"""LoadGen runs, one child process each: test settings, sample library (QSL), batching, session, probe and result files."""
