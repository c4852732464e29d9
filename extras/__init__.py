"""What few users need: each folder is one package, which reaches podium by entry points alone, as
another party's package does. podium works without any of them.
"""
