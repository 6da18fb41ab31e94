"""Toolkit for chat models of other frameworks and servers, which take and give text.

The HTTP backend and the plug-ins' adapters use it alike. ``layout`` makes messages or text of a prompt and neutralises
what strangers wrote; ``reply`` reads providers' answers into one form and ``read`` makes samples of them, without
thoughts, echoes and fences; ``failures`` maps what providers raise to errors of our tree; ``secrets`` keeps keys out of
texts; ``calls`` makes a call again without what a model
refuses; ``adapter`` puts all of it together, with ``support.threads`` for many calls at once.
"""

from __future__ import annotations

from shared_core.lm.chat.adapter import ChatAdapter, LogprobsMode, runs_here
from shared_core.lm.chat.calls import Ask
from shared_core.lm.chat.failures import provider_error, refused_options
from shared_core.lm.chat.reply import Reply, Tokens, find_reason, find_usage, get, read_content, read_tokens, tokens_of
from shared_core.lm.chat.secrets import Secrets

__all__ = [
    "Ask", "ChatAdapter", "LogprobsMode", "Reply", "Secrets", "Tokens", "find_reason", "find_usage", "get",
    "provider_error", "read_content", "read_tokens", "refused_options", "runs_here", "tokens_of",
]  # fmt: skip
