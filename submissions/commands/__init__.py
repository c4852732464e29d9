"""The commands on results and bundles, one file each; thin, so that `--help` loads nothing."""
