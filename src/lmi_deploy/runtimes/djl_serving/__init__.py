"""Runtime djl-serving: an installed DJLServing."""
