"""Rules for round podium-v1."""
