"""The user's question: the request, its filters and its workload."""
