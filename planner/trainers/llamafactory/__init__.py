"""LLaMA-Factory: Transformers under Accelerate or DeepSpeed, from one YAML."""
