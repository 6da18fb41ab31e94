"""ReSearch (Piché et al.): what it asks of a model; utilities and claims are in ``shared_core.abstention``."""
