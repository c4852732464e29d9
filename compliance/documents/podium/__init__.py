"""What podium itself writes: training logs and sets, inference entries, checkpoints, system descriptions, submissions."""
