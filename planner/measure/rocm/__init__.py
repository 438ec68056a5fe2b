"""XLA's compiler for AMD GPUs without ROCm: stand-ins for the libraries that the plugin links."""
