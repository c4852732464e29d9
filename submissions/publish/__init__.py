"""`podium publish`: a site of many results, built as static files."""
