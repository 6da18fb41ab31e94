"""People."""

from __future__ import annotations

from shared_core.lab.schema.base import Attribute, Contest, Kind, Presumption, Unstated

PERSON = Kind(
    "person",
    "",
    attributes=(
        Attribute(
            "occupation", "person", "occupation", "occupation",
            sentences=(
                "{s} worked as {va}.",
                "{s} was {va} by trade.",
                "{s} earned {own} living as {va}.",
                "By profession {s} was {va}.",
                "{p} occupation was that of {va}.",
                "{s} is remembered as {va}.",
            ),
            questions=(
                "What was the occupation of {x}?",
                "What did {x} do for a living?",
                "Which trade did {x} practise?",
                "As what did {x} work?",
            ),
            yes_no=("Did {x} work as {va}?", "Was {x} {va} by trade?", "Is it true that {x} worked as {va}?"),
            same=(
                "Did {a} and {b} have the same occupation?",
                "Did {a} practise the same trade as {b}?",
                "Were {a} and {b} of the same profession?",
            ),
        ),
        Attribute(
            "birth_year", "person", "year", "year of birth",
            sentences=(
                "{s} was born in the year {v}.",
                "The year in which {s} was born was {v}.",
                "{p} year of birth was {v}.",
                "It was in {v} that {s} was born.",
                "{s} came into the world in {v}.",
                "{s} was a child of the year {v}.",
            ),
            questions=(
                "In which year was {x} born?",
                "When was {x} born?",
                "What is the year of birth of {x}?",
                "In what year did {x} come into the world?",
            ),
            yes_no=("Was {x} born in the year {v}?", "Did {x} come into the world in {v}?",
                    "Is {v} the year in which {x} was born?"),
            contest=Contest(
                ("Who was born earlier, {a} or {b}?", "Which of the two is the older one, {a} or {b}?",
                 "Who came into the world first, {a} or {b}?"),
                ("Who was born later, {a} or {b}?", "Which of the two is the younger one, {a} or {b}?",
                 "Who came into the world last, {a} or {b}?"),
            ),
        ),
        Attribute(
            "birthplace", "person", "city", "birthplace",
            sentences=(
                "{s} was born in the city of {v}.",
                "{s} was a native of {v}.",
                "{p} birthplace was {v}.",
                "{v} is the city where {s} was born.",
                "{s} first saw the light of day in {v}.",
                "The city of {v} was where {s} was born.",
            ),
            questions=(
                "In which city was {x} born?",
                "Where was {x} born?",
                "What is the birthplace of {x}?",
                "Of which city was {x} a native?",
            ),
            yes_no=("Was {x} born in {v}?", "Was {x} a native of {v}?", "Is {v} the city where {x} was born?"),
            nouns=("the birthplace of {x}", "the city where {x} was born", "the native city of {x}"),
            same=(
                "Were {a} and {b} born in the same city?",
                "Do {a} and {b} share a birthplace?",
                "Was {a} born in the same city as {b}?",
            ),
        ),
        Attribute(
            "instrument", "person", "instrument", "instrument",
            sentences=(
                "{s} played the {v}.",
                "{s} was a lifelong player of the {v}.",
                "{p} instrument was the {v}.",
                "In the evenings {s} could be heard on the {v}.",
                "The {v} was the instrument that {s} played.",
                "{s} had learned the {v} as a child.",
            ),
            questions=(
                "Which instrument did {x} play?",
                "What instrument did {x} play?",
                "What was the instrument of {x}?",
                "On which instrument could {x} be heard?",
            ),
            yes_no=(
                "Did {x} play the {v}?", "Was the {v} the instrument of {x}?", "Is it true that {x} played the {v}?",
            ),
            same=(
                "Did {a} and {b} play the same instrument?",
                "Did {a} play the same instrument as {b}?",
                "Was the instrument of {a} also that of {b}?",
            ),
        ),
        Attribute(
            "teacher", "person", "person", "teacher",
            sentences=(
                "{s} was taught by {v}.",
                "{s} was a pupil of {v}.",
                "{p} teacher was {v}.",
                "It was {v} who taught {s} the craft.",
                "{s} learned everything from {v}.",
                "{v} took {s} on as a pupil.",
            ),
            questions=(
                "Who taught {x}?",
                "By whom was {x} taught?",
                "Who was the teacher of {x}?",
                "Whose pupil was {x}?",
            ),
            yes_no=("Was {x} taught by {v}?", "Was {x} a pupil of {v}?", "Is {v} the one who taught {x}?"),
            nouns=("the teacher of {x}", "the person who taught {x}", "the one whose pupil {x} was"),
        ),
        Attribute(
            "employer", "person", "organisation", "employer",
            sentences=(
                "{s} was employed by {v}.",
                "{s} was in the service of {v}.",
                "{p} employer was {v}.",
                "{v} paid the wages of {s}.",
                "{s} held a post with {v}.",
                "The employer of {s} was {v}.",
            ),
            questions=(
                "By which organisation was {x} employed?",
                "Who employed {x}?",
                "In whose service was {x}?",
                "What was the employer of {x}?",
            ),
            yes_no=("Was {x} employed by {v}?", "Was {x} in the service of {v}?", "Did {v} employ {x}?"),
            nouns=(
                "the employer of {x}", "the organisation that employed {x}",
                "the organisation in whose service {x} was",
            ),
            changing=True,
        ),
    ),
    unstated=(
        Unstated("shoe size", ("What was the shoe size of {x}?", "Which shoe size did {x} have?",
                               "What size were the shoes of {x}?")),
        Unstated("middle name", ("What was the middle name of {x}?", "Which middle name did {x} have?",
                                 "What did the middle initial of {x} stand for?")),
        Unstated("favourite dish", ("What was the favourite dish of {x}?", "Which dish did {x} like best?",
                                    "What did {x} like to eat most?")),
        Unstated("dog", ("What was the name of the dog of {x}?", "What did {x} call the dog?",
                         "Which name did the dog of {x} have?")),
    ),
    presumptions=(
        Presumption("birthplace", "birth_year", (
            "In which year was {x} born in {v}?",
            "{x} was born in {v}: in which year?",
            "When did {x} come into the world in {v}?",
        )),
        Presumption("teacher", "instrument", (
            "Which instrument did {x} play, who was taught by {v}?",
            "{x} was a pupil of {v}: which instrument did this pupil play?",
            "What was the instrument of {x}, the pupil of {v}?",
        )),
        Presumption("employer", "occupation", (
            "What was the occupation of {x} while employed by {v}?",
            "As what did {x} work in the service of {v}?",
            "Which trade did {x} practise for {v}?",
        )),
    ),
    idle=(
        "Little else is recorded about {p} early years.",
        "Two letters in {own} hand have survived.",
        "Neighbours described {own} house as cold and full of paper.",
        "No portrait of {own} family is known.",
        "Later writers disagree about almost everything else.",
        "{s} is said to have disliked long journeys.",
        "A street was to bear {p} name, but the plan was dropped.",
        "For some years {s} kept a diary, which is lost.",
        "What became of {p} papers is not known.",
        "{s} spoke seldom in public.",
        "Friends remembered {p} patience above all.",
        "The winters of those years were hard.",
    ),
)  # fmt: skip
