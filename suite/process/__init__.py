"""What concerns a podium process: locks, signals, OpenMP, installation."""
