"""A sealed bundle, read without trusting it: archive, manifest, seal."""
