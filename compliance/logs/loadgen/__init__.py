"""Parsers of LoadGen's files: detail log, summary and accuracy log."""
