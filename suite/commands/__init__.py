"""The commands `help`, `list` and `new-workload`, one file each."""
