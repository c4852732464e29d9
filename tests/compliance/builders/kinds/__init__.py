"""Examples of the rules, by what the rules are about."""
