"""`python -m harness`: the `podium` command."""

from suite.cli import main

main()
