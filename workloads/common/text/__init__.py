"""Translation: parallel text, bucketing, beam search, BLEU."""
