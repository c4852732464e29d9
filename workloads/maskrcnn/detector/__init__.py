"""Geometry, proposals and the inference pipeline of Mask R-CNN."""
