"""Megatron-Bridge and NeMo: recipes over Megatron-core, whose settings have the names of Megatron's arguments."""
