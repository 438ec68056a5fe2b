"""verl: supervised fine-tuning, and reinforcement learning whose actor is trained with FSDP."""
