"""`podium peak`: the highest Server rate, or the most samples per MultiStream query, that a latency
bound allows.
"""
