"""Read a sealed bundle without trusting it: archive, manifest, seal."""
