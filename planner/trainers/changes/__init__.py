"""Form: how lcplan changes settings of a file that it has read; each trainer's own is in its folder."""
