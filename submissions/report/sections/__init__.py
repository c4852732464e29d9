"""The sections of a report, one module each, from data to text and charts."""
