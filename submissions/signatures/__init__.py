"""Who stands behind a bundle, and since when: SSH signatures over a statement, and time stamps of RFC 3161."""
