"""The cost model: numpy over columns of candidates. Memory, FLOPs, collectives, step time."""
