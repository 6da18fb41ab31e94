"""SeaKR (Yao et al. 2024): adaptive retrieval, re-ranking and reasoning by a model's uncertainty."""
