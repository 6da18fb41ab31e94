"""Run pipelines: flows and their drivers, requests, resources, budgets."""
