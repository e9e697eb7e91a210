"""What is trained and what is measured."""
