"""The report formats, one module each: `render_FORM_report(results) -> str`, including the final
newline.
"""
