"""Training rows for ReClaim: answers cut into clauses, each with the sentences that support it."""
