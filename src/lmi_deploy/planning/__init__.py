"""The pure steps from a recipe to an artifact: resolve, render and what they need."""
