"""Pack a results folder into a sealed bundle."""
