"""Workers on a Ray cluster. Only the Ray bridge, a process of its own, and what it starts there import Ray."""
