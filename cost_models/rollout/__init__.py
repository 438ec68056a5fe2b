"""Cost model of a rollout: memory and time of prefill and decode, by parameter layout and cache layout."""
