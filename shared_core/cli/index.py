"""``selfreflect index``: create or update an index of documents."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from shared_core.cli.common import BAD_INPUT, FAILED, INTERRUPTED, default_index, group_failures, reports_errors
from shared_core.cli.console import err, indexing_progress, note, out, write_json
from shared_core.cli.options import Vectors

if TYPE_CHECKING:
    from shared_core.documents.store import DocumentIndex, IndexReport, IndexSettings


@dataclass(frozen=True, kw_only=True)
class IndexOptions:
    """Options of ``selfreflect index``; ``None`` leaves a setting of the index as it is.

    >>> IndexOptions(max_file_mb=2).changes()
    {'max_file_bytes': 2097152}
    """

    index: Annotated[
        Path | None,
        typer.Option("--index", metavar="DIR", help="Folder of the index; by default in your cache folder."),
    ] = None
    vectors: Vectors = None
    text_column: Annotated[
        str | None,
        typer.Option("--text-column", metavar="NAME", help="Column of CSV, TSV and JSONL files that holds the text."),
    ] = None
    encoding: Annotated[
        str | None, typer.Option("--encoding", metavar="NAME", help="Encoding of text files that are not UTF-8.")
    ] = None
    max_file_mb: Annotated[
        float | None, typer.Option("--max-file-mb", metavar="N", help="Refuse files larger than this (64 by default).")
    ] = None
    max_file_seconds: Annotated[
        float | None,
        typer.Option(
            "--max-file-seconds", metavar="N", help="Stop reading a file after this many seconds (120 by default)."
        ),
    ] = None
    max_chars: Annotated[
        int | None, typer.Option("--max-chars", metavar="N", help="Longest passage in characters (900 by default).")
    ] = None
    overlap: Annotated[
        int | None,
        typer.Option("--overlap", metavar="N", help="Sentences repeated where a paragraph is cut (1 by default)."),
    ] = None
    wait: Annotated[
        float,
        typer.Option(
            "--wait", min=0, metavar="SECONDS", help="Time to wait for another process that writes to the index."
        ),
    ] = 5.0
    prune: Annotated[bool, typer.Option("--prune/--no-prune", help="Remove files that no longer exist.")] = True
    dense: Annotated[
        bool | None,
        typer.Option("--dense/--no-dense", help="--no-dense is short for --vectors none, --dense undoes it."),
    ] = None
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any file failed.")] = False
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False

    def changes(self) -> dict[str, Any]:
        """Return the settings of the index that were given, by name."""
        given = {
            "text_column": self.text_column,
            "encoding": self.encoding,
            "max_file_bytes": None if self.max_file_mb is None else int(self.max_file_mb * 2**20),
            "max_file_seconds": self.max_file_seconds,
            "max_chars": self.max_chars,
            "overlap": self.overlap,
            "vectors": self.vectors,
        }
        return {name: value for name, value in given.items() if value is not None}


@reports_errors
def index_command(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", metavar="PATH...", show_default=False)],
    options: IndexOptions,
) -> None:
    """Create an index of documents or update it: only changed files are read and embedded again.

    Reads texts, Markdown, HTML, PDF, DOCX, PPTX, XLSX, EPUB, tables (CSV, TSV, JSON, JSON lines),
    notebooks, manual pages, source files, configuration and logs, and .gz of these. It may be stopped at any moment
    and continues from there. Exit codes: 0 indexed, 2 bad input, or no file can be indexed, 1 failure: more than half
    of the files, or with --strict any file.
    """
    from shared_core.documents.store import DocumentIndex

    folder = options.index if options.index is not None else default_index(paths)
    settings = _settings(options.changes())
    with DocumentIndex(folder, dense=options.dense, settings=settings, lock_timeout=options.wait) as opened:
        report = _update(opened, paths, options.prune)
    _show(report, folder, as_json=options.json)
    if report.missing:  # probably a typo: the other paths are indexed, but it must not look like success
        raise typer.Exit(BAD_INPUT)
    failed, files = _failed_files(report)
    if (options.strict and report.failed) or failed > files / 2:
        raise typer.Exit(FAILED)


def _failed_files(report: IndexReport) -> tuple[int, int]:
    """Return how many files could not be indexed, and of how many."""
    read = {*report.added, *report.changed, *report.unchanged}
    failed = {failure.source for failure in report.failed} - read
    return len(failed), len(failed) + len(read)


def _settings(given: dict[str, Any]) -> IndexSettings:
    from shared_core.documents.loaders.formats import check_encoding
    from shared_core.documents.store import IndexSettings
    from shared_core.errors import SettingsError

    if "encoding" in given:
        given["encoding"] = check_encoding(given["encoding"])
    try:
        return IndexSettings(**given)
    except SettingsError as error:
        ranges = "--max-chars 100-20000, --overlap 0-10, --vectors index|chroma|chroma:http://HOST:PORT|none"
        raise SettingsError(error.message, hint=f"Accepted: {ranges}.") from error


def _update(index: DocumentIndex, paths: list[Path], prune: bool) -> IndexReport:
    try:
        with indexing_progress(err) as progress:
            return index.update(paths, prune=prune, progress=progress)
    except KeyboardInterrupt:
        note("Interrupted. Finished work is kept; run the same command again to continue.", style="yellow")
        raise typer.Exit(INTERRUPTED) from None


def _show(report: IndexReport, folder: Path, *, as_json: bool) -> None:
    if as_json:
        write_json({"index": str(folder), **report.to_dict()})
    else:
        table = Table("added", "changed", "deleted", "unchanged", "failed", "passages")
        counts = (report.added, report.changed, report.deleted, report.unchanged)
        failed = len({failure.source for failure in report.failed})
        table.add_row(*(str(len(c)) for c in counts), str(failed), str(report.passages))
        out.print(table)
        out.print(Text(f"index: {folder}"))
        if report.skipped_endings:
            from shared_core.documents.scan import describe_skipped

            skipped = describe_skipped(dict(report.skipped_endings))
            out.print(Text(f"Skipped files of unsupported formats: {skipped}.", style="dim"))
    if report.failed:
        failed, files = _failed_files(report)
        more = len(report.failed) - failed
        within = f"{more} problem{'s' * (more > 1)} within files"
        reasons = ((failed, f"{failed} of {files} files not indexed"), (more, within))
        note(f"warning: {', '.join(text for count, text in reasons if count)}:", style="yellow")
    for named, failure in group_failures(report.failed):
        note(f"  {named}: {failure.message}")
        if failure.hint:
            note(f"    hint: {failure.hint}", style="dim")
