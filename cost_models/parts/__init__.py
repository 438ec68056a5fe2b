"""The registry of the parts of memory and of time: one record each; every list of parts derives from it."""
