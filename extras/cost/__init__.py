"""Cost of results: the price file, the formula, and the command."""
