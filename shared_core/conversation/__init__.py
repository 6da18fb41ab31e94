"""Questions in a conversation: recognise follow-ups, make them full questions, answer them or decline."""

from shared_core.conversation.recognise import FollowUp, recognise
from shared_core.conversation.turns import Asked, Turn, find_question

__all__ = ["Asked", "FollowUp", "Turn", "find_question", "recognise"]
