"""Import: a configuration that someone already runs, read as data and never executed, in lcplan's words."""
