"""What rules are about: training logs and sets, LoadGen runs and entries, systems, submissions and bundles, as read from files."""
