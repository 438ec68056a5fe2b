"""Reading compiled executables: collectives, loops, schedule, kernels."""
