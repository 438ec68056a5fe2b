"""Memory of one step on one device: what is saved, what is alive at the peak, by framework."""
