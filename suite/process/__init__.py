"""Process-level code: locks, signals, OpenMP, installation."""
