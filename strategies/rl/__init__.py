"""Reinforcement learning with the modules of train step and rollout: log-probabilities, the policy update, resharding."""
