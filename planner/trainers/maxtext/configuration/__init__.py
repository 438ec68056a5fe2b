"""MaxText's configurations of a plan: pre-training, and its post-training by reinforcement learning."""
