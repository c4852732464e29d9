"""Power sources: readings of this machine's watts from the kernel, a driver or a meter, each with
its grade and scope. No value is estimated.
"""
