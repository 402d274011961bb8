"""What the house needs of the outside, in its own words: one Protocol a file."""
