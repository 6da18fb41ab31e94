"""Toolkit for chat models of other frameworks and servers, which take and give text.

The HTTP backend and the plug-ins' adapters use it alike. ``layout`` makes messages or text of a prompt and neutralises
what strangers wrote; ``reply`` reads providers' answers into one form and ``read`` makes samples of them, without
thoughts, echoes and fences; ``failures`` maps what providers raise to errors of our tree; ``secrets`` keeps keys out of
texts; ``adapter`` puts all of it together, with ``support.threads`` for many calls at once.
"""

from __future__ import annotations

from shared_core.lm.chat.adapter import Ask, ChatAdapter, LogprobsMode, runs_here
from shared_core.lm.chat.failures import provider_error, refused_options, status_error
from shared_core.lm.chat.layout import Outgoing, as_messages, as_text, control_strings, cut_text, outgoing, plain_layout
from shared_core.lm.chat.overflow import context_overflow
from shared_core.lm.chat.read import OnlyThoughts, Reading, find_stop, make_sample, read_reply
from shared_core.lm.chat.reply import (
    Reply,
    Tokens,
    find_reason,
    find_usage,
    get,
    read_content,
    read_logprob,
    read_tokens,
    tokens_of,
)
from shared_core.lm.chat.secrets import Secrets
from shared_core.support.threads import acall_all, call_all

__all__ = [
    "Ask", "ChatAdapter", "LogprobsMode", "OnlyThoughts", "Outgoing", "Reading", "Reply", "Secrets", "Tokens",
    "acall_all", "as_messages", "as_text", "call_all", "context_overflow", "control_strings",
    "cut_text", "find_reason", "find_stop", "find_usage", "get", "make_sample", "outgoing", "plain_layout",
    "provider_error", "read_content", "read_logprob", "read_reply", "read_tokens", "refused_options", "runs_here",
    "status_error", "tokens_of",
]  # fmt: skip
