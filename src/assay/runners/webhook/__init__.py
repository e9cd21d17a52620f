"""External scorers: an HTTP endpoint of the user's, as a Runner."""
