"""Twelve methods around one network, asked about what they have and have not seen."""
