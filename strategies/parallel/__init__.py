"""Meshes, shardings and collectives that the model is written with."""
