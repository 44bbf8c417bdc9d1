"""What a network assumes before it sees data, and what that does to what it learns."""
