"""What a message's payload becomes: array maths and compiled kernels, no framework."""
