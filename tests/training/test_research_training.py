"""DPO and RLOO on TRL, on models made here: what is encoded, what is learnt, what a reward is, and going on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from shared_core import SelfReflectEngine, SelfReflectSettings
from shared_core.calibration import io as calibration_io
from shared_core.calibration.calibration import Calibration
from shared_core.errors import BackendUnavailableError, GenerationError, InputError, SettingsError
from shared_core.lm.base import Prompt
from shared_core.lm.encoding import Encoder
from shared_core.retrieval import BM25Retriever
from shared_core.training.folder import CARD
from shared_core.training.research.online import Sampled, UtilityReward
from shared_core.training.research.rows import (
    Preference,
    Prompted,
    Scored,
    Searched,
    make_rows,
    read_preferences,
    read_prompted,
)
from shared_core.training.rows import write_json_lines
from shared_core.training.settings import OnlineSettings, PreferenceSettings
from shared_core.types import Passage
from tests.command import selfreflect, succeeds
from tests.fakes import FirstSentenceReader, Shelf
from tests.pipelines.research_scripts import Model, believes, by_words
from tests.training import reclaim_world as world

pytest.importorskip("trl")
pytest.importorskip("peft")

from shared_core.training.research.online import train_online
from shared_core.training.research.preferences import encode_preferences, train_preferences
from tests.training.interrupting import Interrupted, interrupt_at

pytestmark = pytest.mark.usefixtures("one_thread")

GOOD, BAD, NONE = "The lamp was lit in 1871.", "The lamp sank in 1900.", "I do not know."
SMALL = {"max_steps": 2, "use_cpu": True, "learning_rate": 1e-3}


def searched(number: int, passages: tuple[Passage, ...] = ()) -> Searched:
    prompt = Prompt.trusted("Answer: ", "user") + Prompt.untrusted(f"When was lamp {number} lit? </s>", "user")
    candidates = (
        Scored(GOOD, 0.8, (GOOD,), (0.9,)),
        Scored(f"{GOOD} {BAD}", 0.2, (GOOD, BAD), (0.9, 0.2)),
        Scored(BAD, -0.6, (BAD,), (0.2,)),
    )
    return Searched(str(number), f"When was lamp {number} lit?", prompt, candidates, NONE, passages=passages)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as research-data leaves it."""
    folder = tmp_path_factory.mktemp("run")
    made = make_rows([searched(i) for i in range(4)])
    write_json_lines(made.dpo, folder / "dpo.jsonl")
    write_json_lines(made.rloo, folder / "rloo.jsonl")
    card = {"target_accuracy": 0.5, "abstention": NONE, "research": {"closed_book": True, "splitter": "sentences"}}
    (folder / "searches.json").write_text(json.dumps(card), "utf-8")
    return folder


@pytest.fixture(scope="module")
def pairs(run: Path) -> list[Preference]:
    return read_preferences(run / "dpo.jsonl")


@pytest.fixture(scope="module")
def prompts(run: Path) -> list[Prompted]:
    return read_prompted(run / "rloo.jsonl")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tokenizer = world.tokenizer([GOOD, BAD, NONE, "Answer: When was lamp 1 lit?"] * 4)
    return world.checkpoint(tmp_path_factory.mktemp("base"), tokenizer)


def loaded(path: Path) -> Any:
    from shared_core.lm.transformers import TransformersLM

    return TransformersLM(str(path))


def log_p(lm: Any, prompt: Prompt, text: str) -> float:
    from shared_core.lm.base import Score

    (found,) = lm.score([Score(prompt, (Prompt.trusted(text),))])
    return float(found.totals[0])


# --- rows ------------------------------------------------------------------------------------------------------------


def test_pairs_are_encoded_as_inference_encodes_them(pairs: list[Preference], checkpoint: Path) -> None:
    encoder = Encoder(loaded(checkpoint).tokenizer)
    data, dropped = encode_preferences(pairs, encoder, 512)
    assert dropped == 0
    end = encoder.tokenizer.eos_token_id
    assert data[0]["prompt_ids"] == encoder.encode(searched(0).prompt)
    assert end not in data[0]["prompt_ids"]  # "</s>" in a question ends nothing
    assert data[0]["chosen_ids"][-1] == data[0]["rejected_ids"][-1] == end
    assert encoder.tokenizer.decode(data[0]["chosen_ids"][:-1]) == GOOD
    assert encoder.tokenizer.decode(data[0]["rejected_ids"][:-1]) == BAD
    longest = max(len(d["prompt_ids"]) + max(len(d["chosen_ids"]), len(d["rejected_ids"])) for d in data)
    kept, dropped = encode_preferences(pairs, encoder, longest - 1)
    assert len(kept) + dropped == len(data)
    assert dropped > 0
    with pytest.raises(InputError, match="tokens, more than"):
        encode_preferences(pairs, encoder, longest - 1, "raise")
    with pytest.raises(InputError, match="no pairs"):
        encode_preferences([], encoder, 10)


def test_the_papers_values_are_the_defaults() -> None:
    dpo, rloo = PreferenceSettings(), OnlineSettings()
    assert (dpo.max_steps, dpo.learning_rate, dpo.batch_size, dpo.beta) == (400, 1e-6, 64, 0.25)
    assert (rloo.max_steps, rloo.learning_rate, rloo.batch_size, rloo.beta) == (600, 1e-6, 512, 0.1)
    for kind, wrong in ((PreferenceSettings, {"batches": "packed"}), (OnlineSettings, {"samples": 3})):
        with pytest.raises(SettingsError):
            kind(**wrong)


def test_a_file_of_another_kind_is_refused_by_its_line(run: Path, tmp_path: Path) -> None:
    for read, other in ((read_preferences, "rloo.jsonl"), (read_prompted, "dpo.jsonl")):
        with pytest.raises(InputError, match=r"line 1: no row of this kind"):
            read(run / other)
    pair = json.loads((run / "dpo.jsonl").read_text("utf-8").splitlines()[0])
    (tmp_path / "dpo.jsonl").write_text(json.dumps({**pair, "chosen": [{"role": "assistant", "content": None}]}))
    with pytest.raises(InputError, match="expected text, not None"):
        read_preferences(tmp_path / "dpo.jsonl")


# --- DPO -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [pytest.param("full", marks=pytest.mark.train), "lora"])
def test_dpo_makes_the_better_answer_likelier(
    method: str, pairs: list[Preference], checkpoint: Path, tmp_path: Path
) -> None:
    settings = PreferenceSettings(
        **{**SMALL, "max_steps": 8}, batch_size=8, method=method, lora_rank=4, schedule="constant_with_warmup"
    )
    seen: list[int] = []
    result = train_preferences(
        pairs, checkpoint, tmp_path / "m", settings, sources={"f": "x"}, progress=lambda done, *_: seen.append(done)
    )
    assert result.steps == seen[-1] == 8
    before, after = loaded(checkpoint), loaded(tmp_path / "m")
    prompt = searched(0).prompt
    moved = [log_p(lm, prompt, GOOD) - log_p(lm, prompt, BAD) for lm in (before, after)]
    assert moved[1] > moved[0] + 0.1
    card = json.loads((tmp_path / "m" / CARD).read_text("utf-8"))
    assert card["preferences"]["accuracy"]["last"] == 1.0
    assert card["preferences"]["margin"]["last"] > card["preferences"]["margin"]["first"]
    assert card["settings"]["beta"] == 0.25
    assert card["sources"] == {"f": "x"}
    adapter = tmp_path / "m" / "adapter"
    assert adapter.exists() == (method == "lora")
    assert not (adapter / "ref").exists()


@pytest.mark.train
def test_a_model_given_as_an_object_is_compared_with_itself_as_it_was(pairs: list[Preference], tmp_path: Path) -> None:
    tokenizer = world.tokenizer([GOOD, BAD, NONE])
    settings = PreferenceSettings(**SMALL, batch_size=4)
    result = train_preferences(
        pairs, world.model(tokenizer, width=16), tmp_path / "m", settings, tokenizer=tokenizer, progress=lambda *_: None
    )
    assert result.losses[0] == pytest.approx(0.6931, abs=1e-3)  # ln 2: it is its own reference at first


@pytest.mark.train
def test_dpo_that_was_interrupted_goes_on(pairs: list[Preference], checkpoint: Path, tmp_path: Path) -> None:
    settings = PreferenceSettings(**{**SMALL, "max_steps": 4}, batch_size=4, save_every=1)
    whole = train_preferences(pairs, checkpoint, tmp_path / "whole", settings, progress=lambda *_: None)

    with pytest.raises(Interrupted):
        train_preferences(pairs, checkpoint, tmp_path / "m", settings, progress=interrupt_at(3))
    result = train_preferences(pairs, checkpoint, tmp_path / "m", settings, progress=lambda *_: None)
    assert result.card["resumed_at"] == 2
    assert result.losses == pytest.approx(whole.losses, rel=1e-4)


# --- the reward ------------------------------------------------------------------------------------------------------


def judge(think: Any = None) -> tuple[SelfReflectEngine, Model]:
    model = Model([[GOOD]], think=think or believes(lit="90", sank="20"))
    research = {"closed_book": True, "splitter": "sentences", "published": {"self_consistency_samples": 2}}
    settings = SelfReflectSettings(pipeline="research", research=research)
    return SelfReflectEngine(BM25Retriever(), model.lm, settings), model


def of(texts: Sequence[str], source: str = "0") -> list[Sampled]:
    return [Sampled(source, text) for text in texts]


def test_a_reward_is_the_utility_of_the_answer_in_units_of_spread(prompts: list[Prompted]) -> None:
    engine, model = judge()
    reward = UtilityReward(engine, prompts, scale=2.0)
    found = reward(of([GOOD, BAD, f"{GOOD} {BAD}", NONE, "i do not know", "", "Nothing was said of salt."]))
    assert found == pytest.approx([0.4, -0.3, 0.1, 0.0, 0.0, 0.0, -0.45])
    assert len(model.asked("evaluate")) == 2  # one new claim by two subsets: the search knew the others
    assert reward(of(["Nothing was said of salt."])) == pytest.approx([-0.45])
    assert len(model.asked("evaluate")) == 2
    own = UtilityReward(engine, prompts)
    assert own.scale == pytest.approx(make_rows([searched(i) for i in range(4)]).utility_sd)


def test_what_is_written_in_training_is_no_source_to_judge_by(prompts: list[Prompted]) -> None:
    engine, model = judge()
    reward = UtilityReward(engine, prompts)
    reward(of(["The moon is green."] * 8))
    reward(of(["The moon is green. The moon is made of cheese."]))
    assert all("moon" not in r.prompt.text.split("The question was")[0] for r in model.asked("evaluate"))


def test_an_answer_that_was_cut_off_is_worth_its_whole_sentences(prompts: list[Prompted]) -> None:
    reward = UtilityReward(judge()[0], prompts, scale=1.0)
    assert reward([Sampled("0", f"{GOOD} The lamp sank in", False), Sampled("0", "The lamp sank", False)]) == (
        pytest.approx([0.8, 0.0])
    )


def test_an_unreadable_judgement_gives_no_reward_and_is_asked_again(prompts: list[Prompted]) -> None:
    replies = {"says": "certainly"}
    engine, _ = judge(lambda request: replies["says"])
    reward = UtilityReward(engine, prompts, scale=1.0)
    assert reward(of([GOOD, "It is new."])) == [pytest.approx(0.8), None]
    assert reward.unknown == 1
    replies["says"] = "100"
    assert reward(of(["It is new."])) == pytest.approx([1.0])


def test_if_nothing_can_be_judged_training_ends(prompts: list[Prompted]) -> None:
    with pytest.raises(GenerationError, match="Not one of 2 answers could be judged"):
        UtilityReward(judge(lambda request: "about 80 or 90")[0], prompts)(of(["It is new.", "It is old."]))

    class Gone(Model):
        def _reply(self, request: Any) -> Any:
            return BackendUnavailableError("The server is gone.")

    gone = Gone([[GOOD]])
    engine = SelfReflectEngine(BM25Retriever(), gone.lm, judge()[0].settings)
    with pytest.raises(GenerationError, match="could be judged"):
        UtilityReward(engine, prompts)(of(["It is new."]))


def test_a_judge_that_hangs_is_not_waited_for(prompts: list[Prompted]) -> None:
    import time

    def hang(request: Any) -> str:
        time.sleep(30)
        return "90"

    engine = judge(hang)[0]
    engine = engine.over(BM25Retriever(), engine.settings.replace(deadline=0.2))
    reward = UtilityReward(engine, prompts, scale=1.0)
    assert reward([*of([GOOD]), *of(["It is new."], "1")]) == [pytest.approx(0.8), None]


def test_by_passages_the_reward_is_what_they_say() -> None:
    passage = Passage("lamp", GOOD, "Lamps")
    rows = [Prompted.from_dict(row) for row in make_rows([searched(0, (passage,))]).rloo]
    assert rows[0].passages == (passage,)
    model = Model([[GOOD]])
    settings = SelfReflectSettings(pipeline="research", signals="support_only", research={"splitter": "sentences"})
    engine = SelfReflectEngine(
        Shelf(), model.lm, settings, judge=by_words({"1871": 0.95, "sank": 0.1}), reader=FirstSentenceReader()
    )
    reward = UtilityReward(engine, [Prompted(rows[0].prompt, "q", passages=(passage,), source="0")], scale=1.0)
    good, bad, foreign = reward(of([GOOD, BAD, "Xyzzy quux frob."]))
    assert good == pytest.approx(0.9)
    assert bad == pytest.approx(-0.8)
    assert foreign == pytest.approx(-1.0)  # no sentence speaks of it: unsupported, not unknown
    assert model.counts == {}
    with pytest.raises(InputError, match="closed book"):
        UtilityReward(judge()[0], rows)
    with pytest.raises(InputError, match="same source"):
        UtilityReward(engine, [*rows, *rows])


# --- RLOO ------------------------------------------------------------------------------------------------------------

ONLINE = {**SMALL, "batch_size": 8, "samples": 4, "max_new_tokens": 8, "save_every": 1}


def likes(word: str) -> Any:
    """A reward that wants answers to begin with a word."""
    return lambda answers: [float(a.text.strip().startswith(word)) for a in answers]


@pytest.mark.train
@pytest.mark.parametrize("method", ["full", "lora"])
def test_rloo_makes_rewarded_answers_likelier(
    method: str, prompts: list[Prompted], checkpoint: Path, tmp_path: Path
) -> None:
    tokenizer = loaded(checkpoint).tokenizer
    asked: list[Sampled] = []

    def reward(answers: Sequence[Sampled]) -> list[float | None]:
        asked.extend(answers)
        return [float(tokenizer.encode(a.text)[0] % 2) if a.text else None for a in answers]

    settings = OnlineSettings(
        **{**ONLINE, "max_steps": 8, "batch_size": 32, "learning_rate": 5e-2, "max_new_tokens": 1},
        method=method, beta=0.01, lora_dropout=0.0,
    )  # fmt: skip
    result = train_online(prompts, checkpoint, tmp_path / "m", reward, settings, progress=lambda *_: None)
    assert result.steps == 8
    assert len(asked) == 8 * 32
    assert {a.source for a in asked} == {"0", "1", "2", "3"}
    card = json.loads((tmp_path / "m" / CARD).read_text("utf-8"))
    assert card["online"]["reward"]["last"] > card["online"]["reward"]["first"]
    assert (tmp_path / "m" / "adapter").exists() == (method == "lora")
    assert not (tmp_path / "m" / "adapter" / "ref").exists()
    loaded(tmp_path / "m")


@pytest.mark.train
def test_rloo_that_was_interrupted_goes_on(prompts: list[Prompted], checkpoint: Path, tmp_path: Path) -> None:
    settings = OnlineSettings(**{**ONLINE, "max_steps": 3})

    with pytest.raises(Interrupted):
        train_online(prompts, checkpoint, tmp_path / "m", likes("The"), settings, progress=interrupt_at(2))
    result = train_online(prompts, checkpoint, tmp_path / "m", likes("The"), settings, progress=lambda *_: None)
    assert result.card["resumed_at"] == 1
    assert result.steps == 3
    with pytest.raises(InputError, match="in use"):
        train_online(prompts, checkpoint, tmp_path / "m", likes("The"), settings)


@pytest.mark.train
def test_rloo_with_the_utility_as_reward(prompts: list[Prompted], checkpoint: Path, tmp_path: Path) -> None:
    reward = UtilityReward(judge()[0], prompts)
    settings = OnlineSettings(**ONLINE)
    result = train_online(prompts[:1], checkpoint, tmp_path / "m", reward, settings, progress=lambda *_: None)
    assert result.steps == 2
    assert isinstance(result.card["online"]["reward"]["last"], float)
    assert reward.unknown < 16


def test_what_cannot_be_trained_is_refused(prompts: list[Prompted], checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no room for an answer"):
        train_online(prompts, checkpoint, tmp_path / "m", likes("x"), OnlineSettings(**{**ONLINE, "max_length": 12}))
    with pytest.raises(InputError, match="name or path"):
        train_online(prompts, world.model(loaded(checkpoint).tokenizer), tmp_path / "m", likes("x"))
    assert not (tmp_path / "m" / CARD).exists()


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_trains_on_preferences_and_online(run: Path, checkpoint: Path, tmp_path: Path) -> None:
    base = ["train", "research"]
    options = ["-m", checkpoint, "--max-steps", "2", "--cpu"]
    done = succeeds(*base, "dpo", "-r", run / "dpo.jsonl", "-o", tmp_path / "dpo", "--batch-size", "4", *options)
    assert "pairs in the right order" in done.output
    online = ["rloo", "-r", run / "rloo.jsonl", "-o", tmp_path / "rloo", "--batch-size", "8"]
    online += ["--samples", "4", "--max-new-tokens", "8", "--set", 'research.published.evaluation="logits"']
    done = succeeds(*base, *online, *options)
    assert "reward" in done.output
    card = json.loads((tmp_path / "rloo" / CARD).read_text("utf-8"))
    assert card["settings"]["beta"] == 0.1
    assert card["reward"]["target_accuracy"] == 0.5
    assert card["reward"]["research"]["closed_book"] is True


def test_wrong_use_of_the_command_is_told(run: Path, checkpoint: Path, tmp_path: Path) -> None:
    c = tmp_path / "c.json"
    calibration_io.save(c, {"self_evaluation": Calibration("platt", True, {}, slope=1.0)})
    for how, rows, *more in (
        ("dpo", "rloo"), ("rloo", "dpo"), ("dpo", "dpo", "--samples", "8"), ("ppo", "dpo"),
        ("rloo", "rloo", "--calibration", c), ("sft", "dpo", "--beta", "0.1"),
    ):  # fmt: skip  # the searches had no calibration
        given = ["-r", run / f"{rows}.jsonl", *more, "-m", checkpoint, "-o", tmp_path / "m", "--cpu"]
        assert selfreflect("train", "research", how, *given).exit_code == 2, (how, rows, more)
    assert not (tmp_path / "m").exists()
