"""What the user asked: the request, its filters and its workload."""
