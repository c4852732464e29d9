"""What results cost: a file of prices, the formula, and the command that prints both."""
