"""The commands that run, one file each; thin, so that `--help` loads no framework."""
