"""`python -m submissions`: the same command."""

from suite.cli import main

main()
