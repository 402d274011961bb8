"""Cross-checks of a recipe: rules about several keys."""
