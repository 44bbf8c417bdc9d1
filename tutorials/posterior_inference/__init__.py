"""One posterior, and what the methods of inference make of it."""
