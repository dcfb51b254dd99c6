"""Fine-tuning: classifiers retrained on the photos of a person."""
