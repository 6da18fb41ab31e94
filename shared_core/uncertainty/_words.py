"""English function words: what a search query does not need."""

from __future__ import annotations

_WORDS = """
    a an the this that these those some any each every either neither no none all both half such another other i
    me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its itself
    we us our ours ourselves they them their theirs themselves one ones oneself someone somebody something
    anyone anybody anything everyone everybody everything nobody nothing who whom whose which what whoever
    whatever when where why how whenever wherever however and or but nor so yet if because although though while
    whereas unless until since as than whether of in on at by for with about against between into through during
    before after above below to from up down out off over under again further upon within without along across
    behind beyond near toward towards among amongst around via per onto despite except am is are was were be
    been being do does did doing done have has had having can could may might must shall should will would ought
    need isn't aren't wasn't weren't don't doesn't didn't haven't hasn't hadn't can't cannot couldn't won't
    wouldn't shouldn't mustn't i'm you're he's she's it's we're they're i've you've we've they've i'll you'll
    he'll she'll we'll they'll i'd you'd he'd she'd we'd they'd that's there's here's what's who's let's not
    only just also too very quite rather really still even ever never already then there here now thus hence
    therefore indeed perhaps maybe please well yes okay
"""

FUNCTION_WORDS = frozenset(_WORDS.split())
