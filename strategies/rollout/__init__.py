"""Sampling with the modules of the train step: prefill, one decode step with a KV cache, and a loop of them."""
