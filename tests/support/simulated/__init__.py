"""Small worlds in virtual time, and what goes wrong in them."""
