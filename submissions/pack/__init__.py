"""Packs a results folder into a sealed bundle."""
