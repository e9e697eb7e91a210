"""What belongs to generated text alone."""
