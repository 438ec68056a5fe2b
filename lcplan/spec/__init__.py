"""What a user states: the model, the hardware and the workload."""
