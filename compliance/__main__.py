"""Run the judge as `python -m compliance`."""

from suite.cli import main

main()
