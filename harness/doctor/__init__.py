"""`podium doctor`: what this machine can run, tested with tiny networks."""
