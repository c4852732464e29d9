"""Acme's rules."""
