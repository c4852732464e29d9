"""Beam search and decoding of the Transformer."""
