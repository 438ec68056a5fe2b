"""Compilation targets: toolchains, targets, backends and compiler options."""
