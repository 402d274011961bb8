"""The Jinja templates of `templates/`: they only place values; the values come from the spec alone."""

from __future__ import annotations

from lmi_deploy.catalog.package_files import templates


def rendered(template: str, **values: object) -> str:
    """The text of `templates/<template>`; a name that it uses and that is not given is a bug."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,
    )
    return environment.get_template(template).render(values)
