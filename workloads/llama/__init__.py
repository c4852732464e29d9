"""Llama 3.1: a language model, pre-trained to a target loss and served token by token."""
