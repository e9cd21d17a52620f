"""Our error tree: each docstring says what happened and names the remedy; front doors map them once."""


class AssayError(Exception):
    """Something went wrong in Assay; the message says what, and what to do."""

    code = "internal"


class InvalidInputError(AssayError):
    """The request or file cannot be used as it is: the message says what was found, what is allowed, and where."""

    code = "invalid-input"

    def __init__(
        self, message: str, *, field: str | None = None, line: int | None = None, column: int | None = None
    ) -> None:
        super().__init__(message)
        self.field = field
        self.line = line
        self.column = column


class TraceFullError(InvalidInputError):
    """A trace would have more spans than are kept of one: go on under another trace id; nothing was taken."""

    def __init__(self, message: str, *, trace_ids: frozenset[str]) -> None:
        super().__init__(message, field="trace_id")
        self.trace_ids = trace_ids


class NotFoundError(AssayError):
    """There is no such thing, or not in this project: check the id."""

    code = "not-found"


class PayloadTooLargeError(AssayError):
    """The body is larger than the limit: send smaller batches, or raise the limit in the settings."""

    code = "payload-too-large"


class UnsupportedMediaTypeError(AssayError):
    """The content type or encoding is not one we read: the message lists those we do."""

    code = "unsupported-media-type"


class NotAuthenticatedError(AssayError):
    """No valid API key came with the request: send it in x-api-key, or as a bearer token."""

    code = "not-authenticated"


class ForbiddenError(AssayError):
    """The key's role does not allow this: use a key with the role the message names."""

    code = "forbidden"


class OverloadedError(AssayError):
    """More work waits than the operator allows: try again after the time given; nothing was taken."""

    code = "overloaded"

    def __init__(self, message: str, *, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ConflictError(AssayError):
    """The thing changed meanwhile, or cannot make this step: read it again and repeat."""

    code = "conflict"


class SandboxUnavailableError(AssayError):
    """The kernel refuses a part of the sandbox: the message names it and the settings that allow less."""

    code = "sandbox-unavailable"


class StoreUnavailableError(AssayError):
    """The database cannot be written or reached now: nothing of this was stored, so send it again later."""

    code = "store-unavailable"


class SecretUnreadableError(AssayError):
    """A stored secret cannot be opened with this server's keys: give it the key, or set the secret again."""

    code = "secret-unreadable"


class ConfigurationError(AssayError):
    """A setting cannot be used: the message names it and what is allowed."""

    code = "configuration"


class BatchStoppedError(AssayError):
    """The workers of a batch cannot be started or have died: the same command goes on where it stopped."""

    code = "batch-stopped"
