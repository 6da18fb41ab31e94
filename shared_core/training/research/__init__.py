"""Training data by ReSearch: ``searches`` runs the search over many questions, ``rows`` makes rows of what it found."""
