"""`podium report`: one self-contained page, rendered from a document that can also be written as
JSON.
"""
