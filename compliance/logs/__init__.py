"""Parsers: tolerant, streaming, with true line numbers; what is wrong with a file is a flaw of it, never a traceback."""
