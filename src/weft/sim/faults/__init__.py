"""What may go wrong in virtual time, and the parts of a simulation in which it does."""
