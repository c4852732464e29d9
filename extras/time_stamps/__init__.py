"""RFC 3161 time stamps of bundles: `podium timestamp`, and what verifies them by openssl."""
