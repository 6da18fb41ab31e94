"""How a pipeline runs: flows, requests, resources, budget."""
