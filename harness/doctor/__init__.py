"""`podium doctor`: what this machine can run, tried on tiny networks."""
