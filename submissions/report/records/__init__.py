"""What runs recorded of their queries and of the machine, read without trusting it."""
