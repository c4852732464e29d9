"""Studies: their documents, and the contract of what they measure."""
