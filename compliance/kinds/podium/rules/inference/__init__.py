"""Rules for inference entries of round podium-v1 and their LoadGen runs."""
