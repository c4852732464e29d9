"""`podium publish`: a site of many results, as static files that need no server."""
