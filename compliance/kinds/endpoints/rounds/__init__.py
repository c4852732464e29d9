"""What holds of any run of the Endpoints client, as a round of its own."""
