"""The report formats, one module each: `render(results) -> str`, including the final newline."""
