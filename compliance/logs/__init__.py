"""Parse logs as streams with true line numbers; problems in a file become parse errors, never
tracebacks.
"""
