"""The torch face: an ordinary training loop around `weft.join(model, optimizer)`."""
