"""The lab model's tokenizer: a byte-level BPE in which Self-RAG's reflection tokens are single ids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.lab.rows.source import RowSource
from shared_core.errors import InputError, MissingDependencyError
from shared_core.lab.world import World
from shared_core.lm.encoding import plain_text
from shared_core.reflection import REFLECTION_TOKENS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
VOCABULARY = 3072
"""Size of the vocabulary, special tokens included."""
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}{{ eos_token }}\n"
    "{% endfor %}{% if add_generation_prompt %}<|assistant|>\n{% endif %}"
)
_WORLDS, _SIZE, _GROUPS = 24, 0.06, 30
"""Many small worlds, so that no name is frequent enough to become a token."""
_NUMBERS = 60
_FIRST_SEED = 7_000_003


def train_tokenizer(seed: int = 0, *, vocabulary: int = VOCABULARY, context: int = 2048) -> PreTrainedTokenizerFast:
    """Train a tokenizer for the lab's model.

    It is trained on documents, questions and rows of other worlds than the model's own. So the names of the model's
    world are split into pieces like any others, and invented names do not stand out by their tokens.

    Args:
        seed: seed of those worlds.
        vocabulary: number of entries, at least 512.
        context: longest sequence of the model, saved with the tokenizer.

    Raises:
        InputError: the vocabulary is too small.
        MissingDependencyError: tokenizers or transformers is not installed.
    """
    if vocabulary < 512:
        raise InputError(f"A vocabulary of {vocabulary} is too small: bytes and special tokens alone take half of it.")
    try:
        from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise MissingDependencyError("transformers", extra="transformers", purpose="The lab's tokenizer") from error
    core = Tokenizer(models.BPE())
    # Numbers in groups of two digits: any year is two tokens, even one that was never seen.
    digits = pre_tokenizers.Split(Regex(r" ?\d{1,2}"), "isolated")
    core.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PAD, BOS, EOS, *ROLES, *REFLECTION_TOKENS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(_texts(seed), trainer)
    core.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", pair=f"{BOS} $A $B", special_tokens=[(BOS, core.token_to_id(BOS))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        additional_special_tokens=[*ROLES, *REFLECTION_TOKENS],
        chat_template=CHAT_TEMPLATE,
        model_max_length=context,
        clean_up_tokenization_spaces=False,
    )


def _texts(seed: int) -> Iterator[str]:
    """Yield prose, questions and rows, and numbers often enough that each group of digits becomes a token."""
    yield from (f"{n:02d} {n} {n:02d}" for n in range(100) for _ in range(_NUMBERS))
    for number in range(_WORLDS):
        world = World(_FIRST_SEED + seed * _WORLDS + number, size=_SIZE)
        for passage in world.documents():
            yield f"{passage.title}\n{passage.text}"
        for question in world.questions():
            yield from question.paraphrases[:2]
        source = RowSource(world, seed)
        for at in range(_GROUPS):
            rows = source.group(100_000 + at).rows  # past the warm-up: skills at their final frequencies
            yield plain_text(rows[0].prompt) + rows[0].completion
            for row in rows[1:]:  # they share the beginning of the first
                yield plain_text(row.prompt)[-300:] + row.completion
