"""What can go wrong with the service: never the author's fault."""


class ServiceError(Exception):
    """The service could not do what was asked: the message says what it answered."""


class RefusedError(ServiceError):
    """The service does not accept the key."""
