"""Times the optimizer steps of a training, with LoadGen as the clock."""
