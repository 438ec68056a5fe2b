"""Search over a train step of one's own: declared axes and knobs, compiled for the target, ranked by the executable."""
