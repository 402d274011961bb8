"""The pure verbs: parse, check, resolve, render, diff."""
