"""Studies: their documents, and the contract of bare networks."""
