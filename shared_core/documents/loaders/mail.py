"""Read mails as they were sent, one or a mailbox of them, and as a program or a person has saved their text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import replace
from email.message import EmailMessage
from email.parser import BytesParser
from email.policy import default as mail_policy
from itertools import accumulate, pairwise

from shared_core.documents.loaders.extracted import (
    TERM_LEVEL,
    Budget,
    Extracted,
    Heading,
    Problem,
    Segment,
    join_pages,
    join_texts,
    one_line,
    without_surrogates,
)
from shared_core.documents.loaders.formats import decode
from shared_core.errors import DocumentError
from shared_core.support.regex import lazy_regex

_MAIL_HEAD = lazy_regex(rb"(?:From [^\n]*\n)?(?:[!-9;-~]+:[^\n]*\n(?:[ \t][^\n]*\n)*)+\r?\n")
_MAIL_BEGINS = lazy_regex(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n(?=[!-9;-~]+:)")
_MARKED_FROM = lazy_regex(rb"^>(>*From )", re.MULTILINE)  # in a mailbox, of a line that would begin a mail
_MAIL_NAME = lazy_regex(rb"^([!-9;-~]+):", re.MULTILINE)
# The head of a mail as programs show it, its lines in any order; a journey has From, To and Date as well.
_FIELDS = r"(?:\*{0,2}(?:From|To|Cc|Date|Sent|Subject):[^\n]*\n){2,5}\*{0,2}(?:From|To|Cc|Date|Sent|Subject):[^\n]*"
_SHOWN_HEAD = (
    r"(?=(?:[^\n]+\n){0,5}\*{0,2}From:[^\n]*\S)"
    rf"(?=(?:[^\n]+\n){{0,5}}(?:\*{{0,2}}(?:Subject|Sent):|\*{{0,2}}From:[^\n]*\w@\w)){_FIELDS}"
)
_SAVED = lazy_regex(rf"\s*({_SHOWN_HEAD})[ \t]*\n[ \t]*\n")
_FIELD = lazy_regex(r"^\*{0,2}(From|Date|Sent|Subject):\*{0,2}[ \t]*([^\n]*\S)", re.MULTILINE)
# What a mail says above the text of an older one.
_OLDER = lazy_regex(
    r"^(On\b(?:[^\n]{6,150}?|[^\n]{6,150}\n[^\n]{0,80}?)\bwrote:|-{3,} ?(?:Original|Forwarded) [Mm]essage ?-{3,}"
    rf"|{_SHOWN_HEAD})[ \t]*(?:\n|\Z)",
    re.MULTILINE,
)
_MARKS = lazy_regex(r"(?:(?:[ \t]*>)+[ \t]?)?")  # before each line of an older mail, once more for each mail between
_SHORT_QUOTE = 200  # characters of what a reply between the lines of an older mail is headed by


def load_mail(data: bytes, fallback: str | None, budget: Budget) -> Extracted | None:
    """Read a mail as it was sent: its people, date and subject, then its text, decoded, and mails it forwards.

    ``None`` if the file is none, or one that a program has made readable already. DocumentError if its text is not in
    the encoding that it declares, or its HTML is beyond the limits.
    """
    head = _MAIL_HEAD.match(data)
    names = {name.lower() for name in _MAIL_NAME.findall(head[0])} if head else set()
    if b"from" not in names or names.isdisjoint((b"mime-version", b"content-transfer-encoding")):
        return None
    return _read(data, fallback, budget)


def load_mailbox(data: bytes, fallback: str | None, budget: Budget) -> Extracted:
    """Read the mails of a mailbox (mbox, RFC 4155), each under its subject; DocumentError if there is none."""
    starts = [match.start() for match in _MAIL_BEGINS.finditer(data)]
    if not starts:
        raise DocumentError("It holds no mail.", hint="Save the mails as .eml files.")
    mails: list[Extracted] = []
    problems: list[Problem] = []
    for number, (start, end) in enumerate(pairwise([*starts, len(data)]), 1):
        budget.check()
        try:
            found = _read(_MARKED_FROM.sub(rb"\1", data[start:end].rstrip()), fallback, budget)
        except DocumentError as error:
            budget.check()
            found, why = None, f": {error.message}"
        else:
            why = "."
        if found is None:
            problems.append(Problem(f"mail {number} cannot be read{why}", "Save it as a .eml file."))
            continue
        problems += [Problem(f"mail {number}: {p.message}", p.hint) for p in found.problems]
        headings = (Heading(0, 0, 1, found.title), *found.headings)
        segment = Segment(0, len(found.text), found.title, {"mail": number})
        mails.append(replace(found, headings=headings, segments=(segment,)))
    return replace(join_texts(mails), problems=tuple(problems))


def load_saved_mail(text: str) -> Extracted | None:
    """Read a text that begins with the head of a mail as programs show it, and may repeat older ones below.

    Returns ``None`` for any other text.

    >>> older = "> From: Bo\\n> Sent: Monday\\n> To: Ida\\n>\\n> How many?"
    >>> found = load_saved_mail(f"Subject: Hens\\nFrom: Ida\\nTo: Bo\\n\\nThree.\\n\\n{older}")
    >>> found.title, [heading.label for heading in found.headings]
    ('Hens', ['From: Bo Sent: Monday'])
    >>> load_saved_mail("From: Leeds\\nTo: York\\nDate: 3 May\\n\\nA single ticket.") is None
    True
    """
    text = text.replace("\r\n", "\n")
    head = _SAVED.match(text)
    if head is None:
        return None
    subject = next((said for name, said in _FIELD.findall(head[1]) if name == "Subject"), "")
    found = join_pages((Extracted(head[1]), _with_older(Extracted(text[head.end() :].strip("\n")))))
    return replace(found, title=one_line(subject))


def _read(data: bytes, fallback: str | None, budget: Budget) -> Extracted | None:
    try:
        mail = BytesParser(EmailMessage, policy=mail_policy).parsebytes(data)
        found = join_pages(_mail_parts(mail, fallback, budget))
        files = [
            one_line(part.get_filename() or part.get_content_type()) for part in _attached(mail) if not _sent(part)
        ]
    except DocumentError:
        raise
    except (LookupError, ValueError, AttributeError, TypeError, RecursionError):  # the library fails at broken heads
        return None
    problems = tuple(Problem(f"attachment {name} is not read", "Save it beside the mail.") for name in files)
    return Extracted(found.text, _said_in(mail, "Subject"), found.headings, problems=problems)


def _mail_parts(mail: EmailMessage, fallback: str | None, budget: Budget) -> Iterator[Extracted]:
    named = {name: _said_in(mail, name) for name in ("From", "To", "Cc", "Date", "Subject")}
    yield Extracted("\n".join(f"{name}: {said}" for name, said in named.items() if said))
    body = mail.get_body(("plain", "html"))
    content = body.get_payload(decode=True) if body is not None else None
    if body is not None and isinstance(content, bytes):
        text = decode(content, declared=body.get_content_charset(), fallback=fallback)
        if body.get_content_subtype() == "html":
            from shared_core.documents.loaders.html import read_html  # needs lxml, which plain mails do not

            yield _with_older(read_html(text, budget))
        else:
            yield _with_older(Extracted(text.replace("\r\n", "\n").strip("\n")))
    for forwarded in filter(None, map(_sent, _attached(mail))):
        yield from _mail_parts(forwarded, fallback, budget)


def _with_older(body: Extracted) -> Extracted:
    """Return a mail's text with sections for the older mails that it repeats: they are of another day and sender.

    Where it names them, the marks before their lines are left out.
    """
    marked = body.text.split("\n")
    lines = [_MARKS.sub("", line, count=1) for line in marked]
    depths = [line[: len(line) - len(plain)].count(">") for line, plain in zip(marked, lines, strict=True)]
    for match in reversed(list(_OLDER.finditer("\n".join(lines)))):
        below = match.string.count("\n", 0, match.end(1)) + 1
        if "".join(lines[below : below + 1]).strip():
            lines.insert(below, "")  # who wrote it is no part of its first sentence
            depths.insert(below, 0)
    text = "\n".join(lines)
    older = list(_OLDER.finditer(text))
    if not older or body.headings or not any(depths):
        found = [Heading(m.start(), m.end(1), TERM_LEVEL, _named(m[1])) for m in _OLDER.finditer(body.text)]
        return replace(body, headings=tuple(sorted([*body.headings, *found])))
    return replace(body, text=text, headings=tuple(_repeated(lines, depths, older)))


def _repeated(lines: Sequence[str], depths: Sequence[int], older: Sequence[re.Match[str]]) -> Iterator[Heading]:
    """Yield the headings of a mail's parts, by how many marks stood before their lines.

    A reply between the lines of an older mail is headed by the last of those above it.
    """
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    named = {bisect_right(starts, m.start()) - 1: m for m in older}
    between = (
        sum(a > 0 and b == 0 for a, b in pairwise(d for line, d in zip(lines, depths, strict=True) if line.strip())) > 1
    )
    people: dict[int, str] = {}
    depth, behind = 0, -1
    for i, line in enumerate(lines):
        if match := named.get(i):
            behind = bisect_right(starts, match.end(1)) - 1
            depth = next((d for d, below in zip(depths[behind + 1 :], lines[behind + 1 :]) if below.strip()), depths[i])
            people[depth] = _named(match[1])
            yield Heading(match.start(), match.end(1), TERM_LEVEL, people[depth])
        elif i > behind and line.strip() and depths[i] != depth:
            depth = depths[i]
            answered = _above(lines, depths, i) if between and not depth else ""
            yield Heading(starts[i], starts[i], TERM_LEVEL, people.get(depth, answered))


def _named(head: str) -> str:
    """Return what heads an older mail: of several lines the sender and the date."""
    said = {name: f"{name}: {value}" for name, value in _FIELD.findall(head)}
    return one_line(" ".join(said[name] for name in ("From", "Date", "Sent") if name in said) if said else head)


def _above(lines: Sequence[str], depths: Sequence[int], i: int) -> str:
    """Return the last paragraph of an older mail above a line; nothing of a long one, or of one that ends a mail."""
    end = next(k for k in range(i, 0, -1) if lines[k - 1].strip())
    start = next((k for k in range(end, 0, -1) if not (depths[k - 1] and lines[k - 1].strip())), 0)
    said = one_line(" ".join(lines[start:end]))
    return said if len(said) <= _SHORT_QUOTE and said.endswith((".", "?", "!")) else ""


def _said_in(mail: EmailMessage, name: str) -> str:
    return one_line(without_surrogates(str(mail[name] or "")))


def _attached(mail: EmailMessage) -> list[EmailMessage]:
    """Return what is attached to a mail, not the pictures within its text."""
    parts = [part for part in mail.iter_attachments() if isinstance(part, EmailMessage)]
    return [part for part in parts if part.is_attachment() or _sent(part)]


def _sent(part: EmailMessage) -> EmailMessage | None:
    """Return the mail that a part is, if it is one."""
    inner = part.get_payload() if part.get_content_type() == "message/rfc822" else None
    first = inner[0] if isinstance(inner, list) and inner else None
    return first if isinstance(first, EmailMessage) else None
