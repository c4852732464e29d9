"""Go in numpy, many games at once: rules, network inputs, the search, and whole games. Imports no
framework.
"""
