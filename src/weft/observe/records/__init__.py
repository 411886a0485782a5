"""What is known of a run: records, and what follows from them."""
