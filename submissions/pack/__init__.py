"""From a results folder to a sealed bundle."""
