"""The studies of a report, a module for each kind."""
