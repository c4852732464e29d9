"""Where files lie, and how files of anybody are read: layout of a results folder, untrusted files, superseded results."""
