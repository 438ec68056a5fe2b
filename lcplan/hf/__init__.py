"""Hugging Face ``config.json`` to ModelSpec: counted exactly or refused by name, never approximated.

Class defaults and the meaning of keys follow huggingface/transformers, src/transformers/models/<model_type>/ (5.x, where a key
changed its name the older one too), and the models' own code for internlm and internlm2.
"""

from __future__ import annotations

from lcplan.hf.config import from_config, read_config

__all__ = ["from_config", "read_config"]
