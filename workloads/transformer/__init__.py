"""The Transformer (big) on WMT English-German; Vaswani et al. 2017, arXiv:1706.03762."""
