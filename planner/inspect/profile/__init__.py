"""Read a profile that ``jax.profiler`` wrote, and compare the time of its steps with the cost model's parts."""
