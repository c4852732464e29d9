"""LoadGen's scenarios, percentiles and early stopping; pure functions."""
