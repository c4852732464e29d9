"""Inference: `podium infer`, its set-up, run records and LoadGen runs."""
