"""Signers and age of a bundle: SSH signatures over a statement, and time stamps of RFC 3161."""
