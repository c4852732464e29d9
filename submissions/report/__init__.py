"""`podium report`: one self-contained page, rendered from a document that is also available as
JSON.
"""
