"""How fast a device computes and communicates: published and measured rates."""
