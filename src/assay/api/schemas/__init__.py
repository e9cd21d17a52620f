"""Requests and answers of the API, as its documentation shows them."""
