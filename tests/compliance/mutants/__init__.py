"""An independent list of mutants of published results: each kind breaks one rule, and the judge has
to say so.
"""
