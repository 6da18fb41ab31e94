"""Training for Self-RAG: reflection tokens in any model's vocabulary."""
