"""What other load generators report, laid beside a curve of the same server."""
