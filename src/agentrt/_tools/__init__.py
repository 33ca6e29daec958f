"""What a program lends its agent: tools, and hooks."""
