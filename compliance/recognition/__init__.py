"""Recognise the kind of a PATH, its position in a submission tree, and the round that judges it."""
