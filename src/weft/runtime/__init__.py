"""The runtime of a real worker process: a driver of its peers, between the user's script and the transports."""
