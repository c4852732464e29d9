"""This machine: CPUs, GPUs, devices and the system description; imports nothing but suite."""
