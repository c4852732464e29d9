"""`python -m harness`: the same command."""

from suite.cli import main

main()
