"""What may go wrong in virtual time, and a simulation in which it does."""
