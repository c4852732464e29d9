"""The sections of a report, one module each: what is read, and what is said of it."""
