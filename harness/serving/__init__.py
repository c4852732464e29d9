"""The inference half: `podium infer`, its set-up, run records and the LoadGen runs."""
