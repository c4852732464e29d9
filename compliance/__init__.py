"""The judge: decides from the files alone whether a result is compliant."""
