"""The documents that rules check, as read from files: training logs and sets, LoadGen runs and entries, systems, submissions and bundles."""
