"""`podium history`: results of commits in a file in git, and when they changed."""
