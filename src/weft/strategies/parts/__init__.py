"""What several methods are built of: peers, agreements and messages that are no method by themselves."""
