"""Connect to Chroma, and turn its failures into our errors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from shared_core.errors import (
    IndexCorruptedError,
    IndexMissingError,
    InputError,
    MissingDependencyError,
    SelfReflectError,
    StoreError,
)

_DATABASE = "chroma.sqlite3"
_FORMAT = 2
_FULL = ("disk is full", "No space left", "os error 28", "disk I/O error")


def connect(path: str | Path | None, url: str | None, *, create: bool) -> Any:
    """Create a Chroma client; arguments and errors as ``ChromaRetriever``."""
    try:
        import chromadb
        from chromadb.config import Settings
    except ImportError as error:
        raise MissingDependencyError("chromadb", extra="chroma", purpose="A Chroma index") from error
    settings = Settings(anonymized_telemetry=False)
    if url is not None:
        host, port, ssl = _address(url)
        with guard(url):
            return chromadb.HttpClient(host=host, port=port, ssl=ssl, settings=settings)
    if path is None:
        return chromadb.EphemeralClient(settings)
    folder = Path(path)
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"{folder} is a file, not the folder of an index.", hint="Name a folder.")
    if not create and not (folder / _DATABASE).is_file():
        raise IndexMissingError(f"There is no index in {folder}.", hint="Create one: selfreflect index FILES.")
    with guard(str(folder)):
        # Chroma caches clients by spelling of the path: a relative path would keep pointing into an earlier folder.
        return chromadb.PersistentClient(str(folder.resolve()), settings=settings)


def open_collection(client: Any, name: str, bound: dict[str, Any], place: str, *, create: bool) -> Any:
    """Open a collection, created if missing; StoreError if its metadata differ from ``bound``."""
    from chromadb.errors import InvalidArgumentError, NotFoundError

    wanted = {**bound, "selfreflect:format": _FORMAT}
    try:
        with guard(place):
            if create:
                collection = client.get_or_create_collection(
                    name, metadata=wanted, embedding_function=None, configuration={"hnsw": {"space": "cosine"}}
                )
            else:
                collection = client.get_collection(name, embedding_function=None)
    except StoreError as error:
        if isinstance(error.__cause__, InvalidArgumentError):
            raise InputError(f"{name!r} is not a valid name of a collection.", hint=str(error.__cause__)) from error
        if isinstance(error.__cause__, NotFoundError):
            raise IndexMissingError(f"{place} has no collection {name!r}.", hint="Index documents first.") from error
        raise
    _check_bound(collection.metadata or {}, wanted, name, place)
    return collection


def _check_bound(actual: Any, wanted: dict[str, Any], name: str, place: str) -> None:
    if actual.get("selfreflect:format") == 1:
        raise StoreError(
            f"Collection {name!r} in {place} was made by an earlier version of selfreflect.",
            hint="Add its passages to another collection, or delete it and add them again.",
        )
    for key, value in wanted.items():
        if actual.get(key) != value:
            option = key.removeprefix("selfreflect:")
            raise StoreError(
                f"Collection {name!r} in {place} was made with {option} {actual.get(key)!r}, not {value!r}.",
                hint=f"Open it with that {option}, or use another collection.",
            )


def drop_collection(url: str, name: str) -> None:
    """Delete a collection on a server if it exists; errors as of ``connect``."""
    client = connect(None, url, create=False)
    with guard(url):
        if name in {collection.name for collection in client.list_collections()}:
            client.delete_collection(name)


def forget(folder: Path) -> None:
    """Let Chroma open a folder anew that was deleted; call it before the folder is made again.

    It keeps one database for each path as long as the process lives, with connections to the deleted file. Retrievers
    that are still open go on with that one.
    """
    if "chromadb" not in sys.modules:
        return  # nothing was opened
    from chromadb.api.shared_system_client import SharedSystemClient

    for kept in (SharedSystemClient._identifier_to_system, SharedSystemClient._identifier_to_refcount):
        kept.pop(str(folder.resolve()), None)


def delete_quietly(client: Any, name: str) -> None:
    """Free an in-memory collection, ignoring any error."""
    try:
        client.delete_collection(name)
    except BaseException:  # at interpreter exit Chroma may be half torn down
        return


@contextmanager
def guard(place: str) -> Iterator[None]:
    """Turn Chroma's failures into StoreError: a server that is down, a folder that cannot be read."""
    try:
        yield
    except (SelfReflectError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # panics of its Rust core are not Exceptions
        raise _translate(error, place) from error


def _translate(error: BaseException, place: str) -> StoreError:
    name = type(error).__name__
    reason = f"{name}: {error}"
    if place.startswith(("http://", "https://")):
        if name == "InvalidArgumentError" or name == "NotFoundError":
            return StoreError(f"The Chroma server {place} refused: {reason}", hint="Was the collection deleted?")
        return StoreError(
            f"The Chroma server {place} failed: {reason}",
            hint="Is it running? Start one: chroma run --path DIR --port PORT",
        )
    if place != "memory" and name in ("InternalError", "PanicException"):
        if any(sign in str(error) for sign in _FULL):
            return StoreError(
                f"The index in {place} cannot be written: {reason}",
                hint="Free some disk space, then run the same command again. Finished work is kept.",
            )
        if any(sign in str(error) for sign in ("Permission denied", "readonly", "Read-only")):
            return StoreError(f"The index in {place} cannot be written: {reason}", hint="Check its permissions.")
        if "database is locked" in str(error):
            return StoreError(
                f"The index in {place} is being written to by another process.", hint="Wait until it is done."
            )
        return IndexCorruptedError(
            f"The index in {place} cannot be read: {reason}", hint="Move the folder away and index the documents again."
        )
    return StoreError(f"Chroma in {place} failed: {reason}", hint="Was the index changed by another program?")


def _address(url: str) -> tuple[str, int, bool]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/"):
        raise InputError(f"{url!r} is not the address of a Chroma server.", hint="Write http://HOST:PORT.")
    return parts.hostname, port or (443 if parts.scheme == "https" else 8000), parts.scheme == "https"
