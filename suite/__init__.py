"""What is measured, and what a workload promises. Standard library only; click in cli.py alone."""

__version__ = "0.1.0"
