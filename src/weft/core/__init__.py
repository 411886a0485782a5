"""The vocabulary of Weft: nouns, events, actions, peers and strategies. Standard library only."""
