"""Cost of results: a price file, the formula, and the command that prints both."""
