"""TensorFlow: SavedModel export and the engine."""
