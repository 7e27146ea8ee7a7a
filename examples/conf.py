"""The site: the guides, the programs and what they print, all displays, and the reference of the API.

``python -m sphinx -W examples build/site`` makes it; its first page is ``build/site/index.html``.
"""

import inspect
import logging
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

import streamgda

_HERE = Path(__file__).parent
_FILES = "https://github.com/streamgda/streamgda/blob/main/"
_PUBLIC = ["streamgda", "streamgda.plotting", "streamgda.diagnostics", "streamgda.onnx"]

project, author = "streamgda", "the streamgda developers"
version = release = streamgda.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "matplotlib.sphinxext.plot_directive",
]
myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3  # as GitHub makes them
exclude_patterns = ["*.py"]
templates_path = ["_templates"]
html_theme, html_show_copyright = "furo", False
html_title = f"streamgda {version}"
html_static_path, html_css_files = ["_static"], ["site.css"]
html_theme_options = {"source_repository": "https://github.com/streamgda/streamgda", "source_branch": "main"}
html_theme_options["source_directory"] = "examples/"
autosummary_generate = True
autodoc_default_options = {"members": True, "inherited-members": True}
autodoc_typehints = "none"  # numpydoc shows the types that the docstrings tell
default_role = "py:obj"
numpydoc_show_class_members = False
plot_html_show_source_link = plot_html_show_formats = False
plot_include_source = True
suppress_warnings = ["ref.ref", "ref.term"]  # docstrings of scikit-learn link to its own pages
_SITES = {
    "python": "https://docs.python.org/3/",
    "numpy": "https://numpy.org/doc/stable/",
    "pandas": "https://pandas.pydata.org/docs/",
    "sklearn": "https://scikit-learn.org/stable/",
    "pyarrow": "https://arrow.apache.org/docs/",
    "dask": "https://docs.dask.org/en/stable/",
    "zarr": "https://zarr.readthedocs.io/en/stable/",
}
_NAMES = {name: module for module in reversed(_PUBLIC) for name in import_module(module).__all__}
# Their inventories are fetched where the site is published, if they can be; elsewhere nothing is fetched.
intersphinx_mapping = {name: (url, None) for name, url in _SITES.items() if "READTHEDOCS" in os.environ}
logging.getLogger("sphinx.sphinx.ext.intersphinx").setLevel(logging.ERROR)


def setup(app):
    """Run the programs, and link files, code names and members to where they are described."""
    app.connect("builder-inited", _run_programs)
    app.connect("source-read", _with_links)
    app.connect("doctree-read", _with_names)
    app.connect("doctree-resolved", _with_guides)
    app.connect("autodoc-skip-member", _is_inherited_from_others)
    app.connect("autodoc-process-signature", _with_parameters)


def _run_programs(app):
    """Keep what each program prints and draws, for the gallery."""
    for program in set(_HERE.glob("*.py")) - {Path(__file__)}:
        folder = Path(app.srcdir) / "reference" / "programs" / program.stem
        printed = folder / "printed.txt"
        if printed.exists() and printed.stat().st_mtime > program.stat().st_mtime:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        paths = os.pathsep.join([str(Path(streamgda.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        env = {**os.environ, "PYTHONPATH": paths, "MPLBACKEND": "Agg"}
        command = [sys.executable, "-W", "ignore", str(program), "."]
        text = subprocess.run(command, cwd=folder, env=env, check=True, capture_output=True, text=True).stdout
        printed.write_text(text)


def _with_links(app, docname, source):
    """Links from the guides to files of the repository lead there."""
    text = source[0].replace("](../../CHANGELOG.md)", "](../release-notes.md)")
    source[0] = text.replace("](../../", f"]({_FILES}")


def _with_names(app, doctree):
    """Link public names in code, and types of parameters, to their pages."""
    for types in list(doctree.findall(nodes.classifier)):
        parts = re.split(r"([\w.]+)", types.astext())
        types[:] = [_linked(app, nodes.Text(part)) or nodes.Text(part) for part in parts]
    for literal in list(doctree.findall(nodes.literal)):
        if isinstance(literal.parent, nodes.reference):
            continue
        own = literal.parent if isinstance(literal.parent, pending_xref) else None
        if (link := _linked(app, literal.deepcopy())) is not None:
            (own or literal).replace_self(link)
            if app.env.docname.startswith("guides/"):
                guides = app.env.__dict__.setdefault("guides_of", {}).setdefault(link["reftarget"], [])
                guides += {app.env.docname} - set(guides)


def _linked(app, node):
    """A link around a node whose text is a public name of this project or another; None for other text."""
    name = node.astext().partition("(")[0].removeprefix("streamgda.")
    target = f"{_NAMES[name]}.{name}" if name in _NAMES else name
    if name not in _NAMES and not (isinstance(node, nodes.Text) and name.partition(".")[0] in _SITES):
        return None
    kinds = {"refdomain": "py", "reftype": "obj", "refexplicit": True, "refwarn": False}
    return pending_xref("", node, reftarget=target, refdoc=app.env.docname, **kinds)


def _with_guides(app, doctree, docname):
    """End the page of a name with the guides that tell of it."""
    for guide in sorted(getattr(app.env, "guides_of", {}).get(docname.removeprefix("reference/"), [])):
        address = app.builder.get_relative_uri(docname, guide)
        link = nodes.reference("", app.env.titles[guide].astext(), internal=True, refuri=address)
        doctree[-1] += nodes.paragraph("", "See also ", link)


def _is_inherited_from_others(app, what, name, member, skip, options):
    """Members that scikit-learn or Python defines have their own sites."""
    member = getattr(member, "fget", member)
    home = getattr(member, "__module__", None) or getattr(
        getattr(member, "__objclass__", None), "__module__", "streamgda"
    )
    return True if what == "class" and not home.startswith("streamgda") else None


def _with_parameters(app, what, name, described, options, signature, returned):
    """Classes whose `__new__` takes anything are called with the parameters of their `__init__`."""
    if what != "class" or "**" not in (signature or ""):
        return None
    parameters = list(inspect.signature(described.__init__).parameters.values())[1:]
    return str(inspect.Signature([p.replace(annotation=p.empty) for p in parameters])), None
