"""The report's formats, one module each: `render(results) -> str`, with the newline at its end."""
