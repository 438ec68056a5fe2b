"""What can be compiled for: toolchains, targets, backends and compiler options."""
