"""One folder per benchmark with the same file names in each; all models are here."""
