"""Workers on a Ray cluster. Only the Ray bridge, a process of its own, and the actors that it starts import Ray."""
