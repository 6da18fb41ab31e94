"""Claims, support, utility, conformal thresholds."""
