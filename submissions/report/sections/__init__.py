"""The sections of a report, one module each: they turn data into text and charts."""
