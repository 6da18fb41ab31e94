"""Self-RAG: reflection tokens, critique scores, segment beam search."""
