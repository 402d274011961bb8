"""Commands for people who work on lmi; none of them ships."""
