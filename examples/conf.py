"""The site: the guides, the examples, the pictures of all displays, and the reference of the API.

``python -m sphinx -W examples build/site`` makes it; its first page is ``build/site/index.html``.
"""

import streamgda

_FILES = "https://github.com/streamgda/streamgda/blob/main/"

project, author = "streamgda", "the streamgda developers"
version = release = streamgda.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
]
exclude_patterns = ["*.py"]
html_theme, html_show_copyright = "furo", False
html_title = f"streamgda {version}"
myst_heading_anchors = 3  # as GitHub makes them
autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints = "none"  # numpydoc shows the types that the docstrings tell
default_role = "literal"
numpydoc_show_class_members = False
plot_html_show_source_link = plot_html_show_formats = False
plot_include_source = True
suppress_warnings = ["ref.ref", "ref.term"]  # docstrings of scikit-learn link to its own pages


def setup(app):
    """Let links from the guides to files of the repository lead there."""
    app.connect("source-read", _with_links)


def _with_links(app, docname, source):
    source[0] = source[0].replace("](../../", f"]({_FILES}").replace("](..)", f"]({_FILES}examples)")
