"""Runs of Hugging Face Transformers that a front end starts: its settings as those of Accelerate or DeepSpeed."""
