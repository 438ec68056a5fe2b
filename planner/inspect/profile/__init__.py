"""Read a profile that ``jax.profiler`` wrote, and put the time of its steps beside the cost model's parts."""
