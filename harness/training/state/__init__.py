"""What a training set keeps between commands: its state, checkpoints, the way back into it, its attempts."""
