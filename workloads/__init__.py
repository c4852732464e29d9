"""One folder per benchmark, the same file names in each; the models live here."""
