"""What instrumentations call things: one table a family, and the reader that applies them all."""
