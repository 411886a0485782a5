"""How long things take: links and collectives. Pure arithmetic."""
