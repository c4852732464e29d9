"""Power sources: what the kernel, a driver or a meter tells of this machine's watts, each with its grade and scope. No value is estimated."""
