"""Files: layout of a results folder, readers for untrusted files, superseded results."""
