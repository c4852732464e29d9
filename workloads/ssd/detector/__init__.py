"""Default boxes, loss and postprocessing of SSD."""
