"""``streamgda inspect``."""

from __future__ import annotations

from typing import Any

import click

from streamgda.cli.running import Reporting, reporting_options
from streamgda.cli.saved import counted, document_of, text_of, verdicts_on


@click.command()
@click.argument("path", metavar="PATH")
@reporting_options
def inspect(path: str, run: Reporting) -> None:
    """Say what is in saved models, statistics or ledgers.

    That is its kind and parameters, rows, features and classes, the bytes that it takes, and whether it can
    predict (or, of statistics, which models can be made of them) or why not; of a ledger also what it reads,
    and of how many files.

    \b
    Examples:
      streamgda inspect model.parquet
      streamgda inspect ledger --json
    """
    from streamgda.storage.filesystems import resolve

    where, name = resolve(path)
    is_folder = where.get_file_info(name).type.name == "Directory"
    saved, about = _ledger(path, where, name) if is_folder else _file(path, where, name)
    verdicts = [
        {"model": model, "can_predict": fault is None, "reason": fault}
        for model, fault in verdicts_on(saved).items()
    ]
    document = {"path": path, **about, **document_of(saved), "verdicts": verdicts}
    run.output(document, "\n".join([text_of(saved), "", *_lines(about), *map(_line, verdicts)]))


def _file(path: str, where: Any, name: str) -> tuple[Any, dict[str, Any]]:
    from streamgda import load
    from streamgda.storage.filesystems import current_version

    return load(path), {"bytes": current_version(where, name).size}


def _ledger(path: str, where: Any, name: str) -> tuple[Any, dict[str, Any]]:
    from streamgda import StatisticsLedger
    from streamgda.storage.filesystems import listing

    files = listing(where, name)
    if not any(file.endswith("/manifest.parquet") for file in files):
        raise ValueError(f"{path} is a folder, but no ledger; of models and statistics name the file")
    ledger = StatisticsLedger(path)
    about = {
        "bytes": sum(version.size or 0 for version in files.values()),
        "files": ledger.files.num_rows,
        "reads": ledger.read_options,
    }
    return ledger.statistics(), about


def _lines(about: dict[str, Any]) -> list[str]:
    lines = [f"{about['bytes']:,} bytes"]
    if "files" in about:
        lines[0] += f", {counted(about['files'], 'file')}"
        options = [
            f"{name}={value!r}" for name, value in about["reads"].items() if value and name != "features"
        ]
        lines.append(f"reads {', '.join(options)}")
    return lines


def _line(verdict: dict[str, Any]) -> str:
    return f"{verdict['model']} " + (
        "can predict" if verdict["can_predict"] else f"cannot predict: {verdict['reason']}"
    )
