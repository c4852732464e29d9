"""Object detection: COCO data and metric, masks, synthetic scenes, torchvision's operators."""
