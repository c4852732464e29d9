"""`python -m podium`: the `podium` command."""

from suite.cli import main

main()
