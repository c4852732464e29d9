"""From a results folder to one sealed package, scores and comparisons."""
