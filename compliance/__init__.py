"""The judge: decides from a result's files alone whether it is compliant."""
