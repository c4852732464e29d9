"""What a PATH is, where it lies in a submission tree, and by which round it is judged."""
