"""The inference half: `podium infer`, its set-up, run records and LoadGen runs."""
