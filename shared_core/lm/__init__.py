"""Language models by what they can do: the protocol and one file per backend."""
