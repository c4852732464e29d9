"""Signers and age of a bundle: SSH signatures over a statement, and RFC 3161 time stamps."""
