"""The failures of a transfer of several files: kept while the others go on, one error at the end."""

from __future__ import annotations

from collections.abc import Mapping

from lmi_deploy.errors import AccessError, IntegrityError, LmiError, LockLost, NotFound, TransferFailed


def file_failure(raised: BaseException) -> LmiError:
    """The failure of one file. Raises at once what would also stop the others: a refusal, or a bug."""
    if isinstance(raised, LmiError) and not isinstance(raised, (AccessError, LockLost, NotFound)):
        return raised
    raise raised


def raise_failures(
    failed: Mapping[str, LmiError], count: int, *, model_id: str, where: str = "", otherwise: str = ""
) -> None:
    """Raise the error of `failed` by path, if there are any among `count` files: wrong bytes before all others.

    `where` the other files are kept; `otherwise` is the hint for a failure that has none.
    """
    if not failed:
        return
    lines = [
        error.message if path in error.message else f"{path}: {error.message}"
        for path, error in failed.items()
    ]
    errors = [*failed.values()]
    wrong = next((number for number, error in enumerate(errors) if isinstance(error, IntegrityError)), None)
    if wrong is not None:
        error = errors[wrong]
        others = lines[:wrong] + lines[wrong + 1 :]
        raise IntegrityError(error.message, hint=error.hint, details=others) from error
    kept = f"{count - len(failed)} files are complete{where} and kept"
    raise TransferFailed(
        f"{model_id}: {len(failed)} of {count} files failed, {lines[0]}",
        hint=f"{errors[0].hint or otherwise}; {kept}",
        details=lines[1:],
    ) from errors[0]
