"""`podium report`: one self-contained page, made from a document that JSON has too."""
