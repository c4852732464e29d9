"""This machine: CPUs, GPUs, devices and the system description; imports suite alone."""
