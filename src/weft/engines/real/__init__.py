"""What every real run has, wherever its workers are."""
