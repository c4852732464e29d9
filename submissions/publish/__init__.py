"""`podium publish`: a site of many results, as plain files that need no server."""
