"""Questions and claims on made-up documents and paragraphs, as a folder that ``python -m benchmarks.reader`` trains on.

    python -m benchmarks.reader.documents --data DIR --out FOLDER [--held-out]

``documents.jsonl.gz`` was written for this project: everyday documents (rules, contracts, manuals, letters, reports,
leaflets, reviews, …) and paragraphs of SQuAD 1.1's training set, of which it has names and places only. Of each, four
questions that it answers, often in other words; six that it does not, though one sentence looks like it; and ten or
twelve claims: reworded ones that it supports, and ones that keep its words but not what it says. Sentences of the text
are added as claims that it supports, so that words in common say less. No network is trained on part "fit"
(``--held-out`` writes it), on which probabilities are fitted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reader.data import read_lines, write_lines

FILE = Path(__file__).with_suffix(".jsonl.gz")

Row = dict[str, Any]


def documents(data: Path, *, held_out: bool = False, file: Path = FILE) -> list[Row]:
    """Read the documents with their questions and claims, and the text of those that the file only names.

    Args:
        data: folder of the data; its ``reading/squad1_train_passages.jsonl.gz`` holds the paragraphs.
        held_out: return part "fit" instead of "train".
        file: the documents.
    """
    paragraphs = {r["id"]: r for r in read_lines(data / "reading/squad1_train_passages.jsonl.gz")}
    out = []
    for number, row in enumerate(read_lines(file)):
        if (row["part"] == "fit") == held_out:
            whole = _filled(row, paragraphs[row["passage"]]) if "passage" in row else row
            out.append({**whole, "id": f"documents/{number}"})
    return out


def _filled(row: Row, paragraph: Mapping[str, str]) -> Row:
    """Return a row with the paragraph's title and text, and its own text in place of (start, end) code points."""

    def named(some: Mapping[str, Any]) -> Row:
        return {key: paragraph["text"][slice(*v)] if isinstance(v, list) else v for key, v in some.items()}

    parts = {name: [named(some) for some in row[name]] for name in ("questions", "claims")}
    return {**row, "title": paragraph["title"], "text": paragraph["text"], **parts}


def rows_of_folder(some: Sequence[Mapping[str, Any]]) -> dict[str, list[Row]]:
    """Return the rows of the folder's files by their names: passages, questions, claims."""
    out: dict[str, list[Row]] = {"passages": [], "questions": [], "claims": []}
    for row in some:
        out["passages"].append({"id": row["id"], "title": row["title"], "text": row["text"]})
        out["questions"] += [_question(asked, row) for asked in row["questions"]]
        out["claims"] += [*_answers(row), *_claims(row)]
    return out


def _question(asked: Mapping[str, str], row: Mapping[str, Any]) -> Row:
    held = "answer" in asked
    starts = [[_place(asked, "answer", row["text"])]] if held else []
    answers = [asked["short"]] if held else []
    return {
        "question": asked["question"],
        "passage_id": row["id"],
        "answers": answers,
        "starts": starts,
        "answerable": held,
    }


def _answers(row: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the questions with the answer, right or not, that their sentence gives."""
    for asked in row["questions"]:
        if "short" in asked:
            right = "answer" in asked
            start = _place(asked, "answer" if right else "near", row["text"])
            yield {
                "question": asked["question"],
                "passage_id": row["id"],
                "answer": asked["short"],
                "start": start,
                "right": right,
            }


def _claims(row: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the claims, and the evidence of every second wrong one as a right one.

    Wrong claims have more content words of their evidence (.69) than right ones (.36), which a network that was trained
    on them alone had learnt: it refused verbatim sentences. With these the right ones have .57.
    """
    wrong = 0
    for said in row["claims"]:
        common = {"passage_id": row["id"], "evidence": said["evidence"]}
        yield {"claim": said["claim"], "label": said["label"], **common}
        wrong += said["label"] != "supported"
        if said["label"] != "supported" and wrong % 2:
            yield {"claim": said["evidence"], "label": "supported", **common}


def _place(asked: Mapping[str, str], sentence: str, text: str) -> int:
    """Return where the short answer begins: within its sentence."""
    at = text.index(asked[sentence])
    return text.index(asked["short"], at)


def main() -> None:
    """Run the command line."""
    summary = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reader.documents", description=summary)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--held-out", action="store_true", help="write the documents that are not trained on")
    options = parser.parse_args()
    files = rows_of_folder(documents(options.data, held_out=options.held_out))
    for name, rows in files.items():
        write_lines(options.out / f"{name}.jsonl.gz", rows)
    print(", ".join(f"{len(rows)} {name}" for name, rows in files.items()))


if __name__ == "__main__":
    main()
