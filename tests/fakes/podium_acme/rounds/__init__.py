"""Acme's rounds."""
