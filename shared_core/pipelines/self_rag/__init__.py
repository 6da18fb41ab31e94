"""Self-RAG (Asai et al. 2023): retrieve on demand, write segment by segment, and criticise each while writing."""
