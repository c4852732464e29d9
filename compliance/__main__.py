"""`python -m compliance`: the same command."""

from suite.cli import main

main()
