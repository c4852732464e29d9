"""Bare networks for `podium sweep`: no training, no data, no score."""
