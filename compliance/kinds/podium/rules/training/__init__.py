"""Rules for training logs and sets of round podium-v1."""
