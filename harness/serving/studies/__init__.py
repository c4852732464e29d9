"""The one driver of all studies: lock, signals, resume, the runs of points, and output."""
