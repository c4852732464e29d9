"""Go in numpy, many games at once: rules, what a network sees, the search, and whole games. No
framework.
"""
