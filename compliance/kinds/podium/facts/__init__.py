"""What several documents of podium's results state, and which documents are held against one
another.
"""
