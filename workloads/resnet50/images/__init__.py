"""ImageNet's folder layout, and the embedded images in it."""
