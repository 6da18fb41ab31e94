"""One file per family of formats: bytes in, extracted text with its structure out."""
