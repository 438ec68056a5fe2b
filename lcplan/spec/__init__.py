"""The user's specs: the model, the hardware and the workload."""
