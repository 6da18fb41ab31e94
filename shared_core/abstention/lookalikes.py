"""Letters and digits that look like others: "⑤" and "Ⅴ" for 5, a Cyrillic "о" in "nоt".

A reader takes them for what they look like, and a comparison does not. Digits and letters of compatibility are written
plainly. A word of two scripts cannot be: nobody can say what was meant by it.
"""

from __future__ import annotations

import re
import unicodedata

from shared_core.support.regex import lazy_regex

__all__ = ["mixed_words", "written_plainly"]

# Not "½", "™", "º" and "…", whose plain forms would run into the word before them.
_COMPATIBLE = lazy_regex("[\u2460-\u24ff\u2776-\u2793\u3380-\u33df\ufb00-\ufb06\uff01-\uff5e\U0001d400-\U0001d7ff]+")
# A power, an index or a footnote belongs to what stands before it; alone it is a number.
_RAISED = lazy_regex(r"(?<!\S)[⁰¹²³⁴-⁹₀-₉]+(?=\s|[.,;:!?%°€£$]|\Z)")
_NUMERALS = lazy_regex("[\u2160-\u2188]+")
_WORD = lazy_regex(r"[^\W\d_]{2,}")
_ALIKE = frozenset("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧο")
"""Greek letters that are Latin ones to the eye; not those of "µm", "IκB", "TNFα"."""


def written_plainly(text: str) -> str:
    """Write digits and letters of compatibility as the plain ones that they stand for.

    >>> written_plainly("Open from ⁵ to ⑨ or ７, not Ⅴ, by Charles Ⅴ; 10⁵ m²")
    'Open from 5 to 9 or 7, not 5, by Charles V; 10⁵ m²'
    """
    if text.isascii():
        return text
    text = _COMPATIBLE.sub(lambda m: "".join(map(_plain, m[0])), text)
    text = _RAISED.sub(lambda m: unicodedata.normalize("NFKC", m[0]), text)
    return _NUMERALS.sub(lambda m: _numeral(text, m), text)


def _plain(char: str) -> str:
    if "\u2776" <= char <= "\u2793":  # digits in black circles, which have no compatible form
        return str(int(unicodedata.numeric(char)))
    # "⑤" is 5, "⑴" is (1), "ⓐ" is a
    return unicodedata.normalize("NFKC", char)


def _numeral(text: str, match: re.Match[str]) -> str:
    """Write a Roman numeral of one character as a number, unless a name before it says that it belongs to that."""
    letters = unicodedata.normalize("NFKC", match[0])
    word = re.search(r"([^\W\d_]+)\s?\Z", text[max(0, match.start() - 40) : match.start()])
    named = word is not None and word[1][0].isupper()
    return letters if named or len(match[0]) > 1 else str(int(unicodedata.numeric(match[0])))


def mixed_words(text: str) -> list[str]:
    """Find the words that mix Latin letters with Cyrillic ones, or with Greek ones that look Latin.

    >>> mixed_words("It does n\\u043et open."), mixed_words("Δt of 5 µm, TNFα, Москва")
    (['nоt'], [])
    """
    if text.isascii():
        return []
    return [word for word in _WORD.findall(text) if not word.isascii() and _is_mixed(word)]


def _is_mixed(word: str) -> bool:
    scripts = [unicodedata.name(char, "").partition(" ")[0] for char in word]
    if "LATIN" not in scripts:
        return False
    return "CYRILLIC" in scripts or (scripts.count("LATIN") > 1 and any(char in _ALIKE for char in word))
