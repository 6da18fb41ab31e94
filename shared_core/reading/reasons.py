"""Find whether a sentence gives a reason where a question asks for one.

"Why can the data type not be changed?" presupposes that it cannot, and a sentence that says so matches all of its words
without answering it: "Once the data type is set, it cannot be changed."
"""

from __future__ import annotations

import re

NO_REASON = -1.5
"""Added to both log-odds of a sentence without a reason where a question asks for one.

Of 80 such first quotes, in public data and in manuals, 12 were right where 31 were expected."""

_ASKED = re.compile(r"\bwhy\b|\bhow come\b|\b(?:for )?what(?: is|'s|’s|s| was)?(?: the)? reasons?\b", re.IGNORECASE)
_SIGNS = (
    r"because|since|due to|owing to|thanks to|so (?:that|as to)|reasons?|therefore|thus|hence|consequently|otherwise"
    r"|given that|the fact that|in case|on account of|as a result|in view of|in the interest|if|until|likely|follow\w*"
    r"|result(?:s|ed|ing)? (?:of|from|in)|caus(?:e[sd]?|ing)|lea?d(?:s|ing)? to|stem(?:s|med)? from|depend\w* on"
    r"|motivat\w+|(?:that|this|which) is why|for (?:the sake|fear|its|their|his|her)|(?:intended|designed) to|based on"
    r"|in (?:response|reaction|protest|opposition|return|exchange|hopes?|anticipation|preparation|fear|light|order)"
    r"|(?:try|attempt|want|hop|seek|wish|look|aim)ing to|forc(?:es|ed|ing)|ma(?:kes|de|king) (?:it|them|him|her)"
    r"|(?:tries|tried|attempt(?:s|ed)?|seeks?|sought|want(?:s|ed)?|wish(?:es|ed)?|aim(?:s|ed)?|hope[sd]?) to"
    r"|(?:driven|drawn|prompted|inspired|encouraged|attracted|angered|provoked|influenced) by|worried|concern(?:ed|s)"
    r"|fear(?:ed|ing|s)?|means? that|so (?:you|we|it|they|the|he|she|there|this|users?|people)"
    r"|(?:this|which) (?:means|allows|ensures|makes|helps|prevents|enables|reduces|gives|keeps|limits|would|can|could)"
    r"|(?:can|could|may|might|would|will)"
    r" (?:lead|cause|result|trigger|break|fail|damage|make|create|introduce|confuse|slow|prevent|hurt|harm)"
)
_AS = (
    r"as (?:it|this|that|they|we|you|he|she|there|the|an?|some|many|most|all|these|those|its|their|our|your|no|not"
    r"|(?-i:[A-Z])\w+)\b(?! (?:well|long|soon) as)"
)
_SAKE = (
    r"for (?:\w+ ){0,3}(?:reasons?|purposes?|compliance|compatibility|security|safety|performance|efficiency"
    r"|convenience|clarity|simplicity|accuracy|consistency)"
)
_PURPOSE = (
    r"achieve|allow|assess|attract|avoid|be able|build|check|comply|cover|create|defend|demonstrate|determine|enable"
    r"|encourage|end|ensure|escape|establish|facilitate|fight|find|gain|gather|get|give|guarantee|handle|help|identify"
    r"|improve|increase|keep|learn|let|limit|maintain|make|match|maximi[sz]e|meet|minimi[sz]e|offer|preserve|prevent"
    r"|promote|protect|provide|raise|recover|reduce|remove|restore|save|secure|see|seek|show|simplify|stop|study"
    r"|support|test|understand|win"
)
_NEEDS_TO = "able unable want wants need needs likely possible how have has had used required"
_FOR_PURPOSE = "".join(rf"(?<!\b{word} )" for word in _NEEDS_TO.split()) + rf"\bto (?:\w+ly )?(?:{_PURPOSE})\b"
_REASON = re.compile(
    rf"\b(?:{_SIGNS}|{_AS}|{_SAKE})\b|[,;:(] ?(?:so|as|for)\b|(?:^|[.!?]\s+)So\b|{_FOR_PURPOSE}", re.IGNORECASE
)


def asks_reason(question: str) -> bool:
    """Return whether a question asks for a reason: "Why …?", "What is the reason for …?"."""
    return _ASKED.search(question) is not None


def gives_reason(text: str) -> bool:
    """Return whether a text has words by which reasons are given: "because", "so that", "to avoid"."""
    return _REASON.search(text) is not None
