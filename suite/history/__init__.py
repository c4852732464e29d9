"""A history of results: a file of JSON lines that lies in git, and what its numbers say."""
