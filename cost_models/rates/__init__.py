"""Rates at which a device computes and communicates, published or measured."""
