"""The Jinja templates of `templates/`: they only place values; the values come from the spec alone."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from lmi_deploy.catalog.package_files import templates

if TYPE_CHECKING:
    from jinja2 import Environment


def rendered(template: str, **values: object) -> str:
    """The text of `templates/<template>`; a name that it uses and that is not given is a bug."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> Environment:
    """One per process, because it keeps the templates that it has compiled: 20 ms for a recipe."""
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,
    )
