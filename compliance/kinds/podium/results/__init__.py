"""The values of podium's own results: scores, energy, traits, and what reports draw of runs."""
