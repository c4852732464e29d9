"""Streaming parsers with true line numbers; problems in a file become flaws, never tracebacks."""
