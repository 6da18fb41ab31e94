"""Engine, checker, re-ranker and gated retriever, and how their parts are put together."""
