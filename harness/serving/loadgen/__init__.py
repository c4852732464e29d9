"""LoadGen runs, each in a child process: test settings, sample library (QSL), batching, session,
probe and result files.
"""
