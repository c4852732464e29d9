"""`podium launch`: writes the files that start a training on a cluster; it runs nothing. The
templates lie beside the code.
"""
