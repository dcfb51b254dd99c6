"""Signals: Fourier transforms, spectrograms, coefficients of speech."""
