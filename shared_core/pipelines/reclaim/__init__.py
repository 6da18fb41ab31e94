"""ReClaim (Xia et al. 2024): every claim after a quote that decoding forces to be verbatim."""
