"""Training data by ReSearch: ``searches`` searches many questions, ``rows`` makes rows of the candidates."""
