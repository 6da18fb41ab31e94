"""A small world to learn ReClaim on: four facts about somebody in every prompt, and a question about one of them.

Which sentence answers is told by the question's first word, and sentences do not hold it: a model has to have learnt
what belongs together, and read which question is asked.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from shared_core.training.reclaim.rows import build_rows
from shared_core.training.reclaim.sources import Segment, SourceAnswer
from shared_core.training.rows import TrainingRow
from shared_core.types import Passage

NAMES = ("Orm", "Ila", "Venn", "Tarn", "Mira", "Dorn", "Sela", "Bram", "Nour", "Yara", "Pell", "Quin")
THINGS = ("lamps", "boats", "maps", "bells", "goats", "ropes", "coins", "books")
RELATIONS = {
    "Where does {} live?": "The home of {} is full of {}.",
    "When was {} born?": "The birth of {} was a day of {}.",
    "Who taught {}?": "The teacher of {} knew all about {}.",
    "Which boat has {}?": "The ship of {} carries {}.",
    "How does {} earn money?": "The trade of {} is selling {}.",
    "Why do people know {}?": "The fame of {} comes from {}.",
}
SENTENCES = 4


def source(rng: random.Random, number: int) -> SourceAnswer:
    """Four sentences in two passages, and a question that one of them answers."""
    name = rng.choice(NAMES)
    asked, *others = rng.sample(sorted(RELATIONS), SENTENCES)
    texts = [RELATIONS[q].format(name, rng.choice(THINGS)) for q in (asked, *others)]
    answer = texts[0]
    rng.shuffle(texts)
    passages = (Passage("a", " ".join(texts[:2])), Passage("b", " ".join(texts[2:])))
    return SourceAnswer(str(number), asked.format(name), passages, segments=(Segment(answer, (answer,)),))


def sources(count: int, seed: int = 0) -> list[SourceAnswer]:
    """Different ones; two of them never hold the same question over the same sentences."""
    rng = random.Random(seed)
    found: dict[Any, SourceAnswer] = {}
    while len(found) < count:
        made = source(rng, len(found))
        found.setdefault((made.question, tuple(p.text for p in made.passages)), made)
    return list(found.values())


def rows(given: list[SourceAnswer], *roles: str) -> list[TrainingRow]:
    """Their rows of some roles."""
    return [r for r in build_rows(given).rows if r.role in roles]


def tokenizer(texts: list[str]) -> Any:
    """A byte-level BPE over the rows, in which the world's words are one token each."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<pad>", "<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", pad_token="<pad>")


def model(tokenizer: Any, *, width: int = 64, layers: int = 2, seed: int = 0, tied: bool = True) -> Any:
    """A random Llama of this vocabulary."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=tied,
        initializer_range=0.05,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def checkpoint(folder: Path, tokenizer: Any, dtype: Any = None, **options: Any) -> Path:
    """A tiny model with this tokenizer, saved; options as for ``model``."""
    model(tokenizer, **{"width": 16, **options}).to(dtype).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
