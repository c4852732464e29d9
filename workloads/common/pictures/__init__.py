"""Image files: decoding, checks, and samples held in memory."""
