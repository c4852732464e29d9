"""What `quick` and `full` read: MLCommons' preprocessed C4, its articles of CNN/DailyMail, Llama
3.1's tokenizer, and published checkpoints.
"""
