"""Things described by labelled lines (``Weight: 12 kg``), and questions in other words than the label's.

A passage has one to four things, each below its name or with its name as the passage's title, and may begin with a
sentence or two of running text. Of the questions two in five ask for a label or a thing that the passage does not have.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.reader.data import QuestionRow
from benchmarks.reader.presupposed import Made
from shared_core.types import Passage

LABELS: Mapping[str, tuple[str, str]] = {
    "Weight": ("{n} kg;{n} g;{d} lbs", "How heavy is {x}?;How much does {x} weigh?;What does {x} weigh?"),
    "Length": ("{d} m;{n} cm;{n} ft", "How long is {x}?;What length does {x} have?"),
    "Width": ("{n} cm;{d} m;{n} in", "How wide is {x}?;How broad is {x}?"),
    "Height": ("{n} cm;{d} m;{n} ft", "How tall is {x}?;How high is {x}?"),
    "Depth": ("{d} m;{n} ft;{n} mm", "How deep is {x}?;How far down does {x} go?"),
    "Area": ("{n} km²;{d} ha;{n} sq ft", "How big is {x}?;How large is {x}?;What area does {x} cover?"),
    "Speed": ("{n} km/h;{n} mph;{d} knots", "How fast is {x}?;How fast does {x} go?"),
    "Price": ("${d};£{d};€{n}", "How much is {x}?;What does {x} cost?;How much does {x} cost?;How expensive is {x}?"),
    "Rent": (
        "${n} per month;£{n} a week;€{n}",
        "What do I have to pay to rent {x}?;How much does it cost to rent {x}?",
    ),
    "Deposit": (
        "${n};£{d};{n} % of the total",
        "How much do I pay down for {x}?;What must I leave as security for {x}?",
    ),
    "Population": ("{n};{n},{k}", "How many people live in {x}?;How many inhabitants does {x} have?"),
    "Employees": ("{n};about {n}", "How many people work at {x}?;How many staff does {x} have?"),
    "Capacity": ("{n} people;{n} seats;{n} persons", "How many people fit into {x}?;How many can {x} take?"),
    "Serves": ("{k} people;{n}", "How many people does {x} feed?;For how many people is {x}?"),
    "Head office": ("{place}", "Where is {x} based?;In which city is {x}'s main office?"),
    "Address": ("{n} {street}", "Where is {x}?;Where can I find {x}?;How do I get to {x}?"),
    "Venue": ("{street} Hall;Room {n};{place}", "Where does {x} take place?;Where is {x} held?;In which room is {x}?"),
    "Phone": ("0{n} {n}{k};+{k} {n} {n}", "How can I call {x}?;Which number do I ring for {x}?"),
    "Email": ("{last}@example.org;office@{place}.example", "Where do I write to for {x}?;How can I mail {x}?"),
    "Contact": ("{person}", "Who do I ask about {x}?;Whom do I talk to about {x}?"),
    "Responsible": ("{person}", "Who is in charge of {x}?;Who looks after {x}?;Who takes care of {x}?"),
    "Instructor": ("{person}", "Who teaches {x}?;Who gives {x}?"),
    "Author": ("{person}", "Who wrote {x}?;Who is {x} by?"),
    "Owner": ("{person};{place} Council", "Who does {x} belong to?;Whose is {x}?"),
    "Manufacturer": ("{last} Ltd;{last} & Sons;{place} Works", "Who makes {x}?;Which company produces {x}?"),
    "Founded": ("{year};{day} {month} {year}", "When was {x} set up?;How long has {x} existed?;When was {x} started?"),
    "Published": ("{year};{month} {year}", "When did {x} come out?;When did {x} appear?"),
    "Date": ("{day} {month} {year};{weekday}, {day} {month}", "When is {x}?;On what day is {x}?;When does {x} happen?"),
    "Deadline": (
        "{day} {month};{day} {month} {year}",
        "By when do I have to apply for {x}?;Until when can I apply for {x}?",
    ),
    "Expires": ("{day} {month} {year};{month} {year}", "Until when is {x} valid?;When does {x} run out?"),
    "Opening hours": (
        "{h} am – {k} pm;{h}:00–1{k}:30",
        "When is {x} open?;When does {x} open?;Until when is {x} open?",
    ),
    "Start": ("{h}:30 am;{h} pm;{day} {month}", "When does {x} begin?;What time does {x} begin?"),
    "Duration": ("{n} minutes;{k} hours;{k} weeks", "How long does {x} last?;How long does {x} take?;How long is {x}?"),
    "Frequency": ("daily;weekly;every {k} weeks;twice a year", "How often does {x} take place?;How often is {x}?"),
    "Warranty": ("{k} years;{n} months", "For how long is {x} guaranteed?;How many years of guarantee does {x} have?"),
    "Battery life": (
        "{k} hours;up to {n} hours",
        "How long does {x} run on a charge?;How long does {x} last unplugged?",
    ),
    "Power": ("{n} W;{d} kW", "How many watts does {x} draw?;How strong is the motor of {x}?"),
    "Pages": ("{n}", "How many pages does {x} have?;How long is {x}?"),
    "Colour": ("red;dark blue;green;white;grey", "What colour is {x}?;Which colour does {x} have?"),
    "Material": ("oak;steel;cotton;glass;aluminium", "What is {x} made of?;Of what is {x} made?"),
    "Language": ("English;Spanish;Welsh;German", "In what language is {x}?;What language is {x} in?"),
    "Minimum age": ("{k};{k} years;1{k}", "How old do I have to be for {x}?;From what age is {x}?"),
    "Licence": ("MIT;GPL-3.0;CC BY 4.0", "Under what terms may I use {x}?;Under which licence is {x}?"),
    "Platform": ("Linux;Windows 11;Android {k}", "What does {x} run on?;On which system does {x} run?"),
}
"""Of each label, forms of its values and questions for them; several labels share "How long is {x}?"."""
_PEOPLE = "Anna;Ravi;Lucy;Tomás;Ingrid;Kofi;Mei;Omar;Ruth;Pavel", "Berg;Rao;Osei;Moreau;Tanaka;Duarte;Novak;Price;Hill"
_PLACES = "Leeds;Porto;Osaka;Lyon;Tampere;Bergen;Austin;Quito;Pune;Geneva"
_STREETS = "Mill Lane;Station Road;Park Street;High Street;Oak Avenue;Church Road"
_MONTHS = "January;February;March;April;May;June;July;August;September;October;November;December"
_DAYS = "Monday;Tuesday;Wednesday;Thursday;Friday;Saturday;Sunday"
_RUNNING = (
    "All details are subject to change.",
    "Please check with the office before you come.",
    "The following was last checked in spring.",
    "More about it can be found on the next page.",
    "See the notes at the end for exceptions.",
)
_ALIKE = (  # a question for one may be answered by another, so none of them is asked for in vain beside another
    {"Head office", "Address", "Venue"},
    {"Contact", "Responsible", "Phone", "Email"},
    {"Date", "Start", "Opening hours"},
    {"Deadline", "Expires"},
    {"Founded", "Published"},
    {"Price", "Rent"},
    {"Capacity", "Serves"},
    {"Minimum age", "Founded"},
)
_LEAST = 10  # names
_OPEN = 0.4  # share of questions that the passage does not answer
_PLAIN = 0.25  # share of questions in the label's own words


@dataclass(frozen=True, slots=True)
class _Thing:
    name: str
    values: dict[str, str]  # by label


def make(names: Sequence[str], count: int, rng: random.Random) -> Made:
    """Make ``count`` passages with two or three questions each.

    Args:
        names: of things; no passages are made of fewer than 10.
        count: number of passages.
        rng: random numbers.
    """
    made = Made([], [])
    for i in range(count if len(names) >= _LEAST else 0):
        things = [_thing(name, rng) for name in rng.sample(names, rng.choice((1, 1, 2, 3, 4)))]
        passage, places = _write(f"labels/{i}", things, rng)
        made.passages.append(passage)
        for _ in range(rng.choice((2, 2, 3))):
            made.questions.append(_ask(passage, things, places, names, rng))
    return made


def _thing(name: str, rng: random.Random) -> _Thing:
    labels = rng.sample(sorted(LABELS), rng.randint(2, 7))
    return _Thing(name, {label: _value(label, rng) for label in labels})


def _value(label: str, rng: random.Random) -> str:
    one = {key: rng.choice(text.split(";")) for key, text in (("place", _PLACES), ("street", _STREETS))}
    one |= {"month": rng.choice(_MONTHS.split(";")), "weekday": rng.choice(_DAYS.split(";"))}
    first, last = (rng.choice(names.split(";")) for names in _PEOPLE)
    return rng.choice(LABELS[label][0].split(";")).format(
        **one,
        n=rng.randint(10, 900),
        d=f"{rng.uniform(1, 99):.1f}",
        k=rng.randint(2, 9),
        h=rng.randint(7, 11),
        day=rng.randint(1, 28),
        year=rng.randint(1950, 2025),
        last=last,
        person=f"{first} {last}",
    )


def _write(key: str, things: Sequence[_Thing], rng: random.Random) -> tuple[Passage, list[dict[str, tuple[int, int]]]]:
    """Write things as a passage; returns it with the code points of every value."""
    titled = len(things) == 1 and rng.random() < 0.6
    mark, bullet = rng.choice(("", "", "## ", "**")), rng.choice(("", "", "- ", "* ", "**"))
    text = f"{rng.choice(_RUNNING)}\n\n" if rng.random() < 0.3 else ""
    places = []
    for thing in things:
        text += "" if titled else f"{mark}{thing.name}{'**' if mark == '**' else ''}\n"
        spans = {}
        for label, value in thing.values.items():
            text += f"{bullet}{label}:{'**' if bullet == '**' else ''} "
            spans[label] = (len(text), len(text) + len(value))
            text += f"{value}\n"
        places.append(spans)
        text += "\n"
    return Passage(key, text.rstrip("\n"), things[0].name if titled else ""), places


def _ask(
    passage: Passage,
    things: Sequence[_Thing],
    places: Sequence[Mapping[str, tuple[int, int]]],
    names: Sequence[str],
    rng: random.Random,
) -> QuestionRow:
    i = rng.randrange(len(things))
    name, span = things[i].name, None
    if rng.random() >= _OPEN:
        label = rng.choice(sorted(things[i].values))
        form = _form(label, things[i].values, rng)
        span = places[i][label]
    elif rng.random() < 0.6:  # a label of the others, but not of this thing
        absent = [la for la in LABELS if not _answerable(la, things[i].values)]
        others = [la for la in absent if any(la in t.values for t in things)]
        label = rng.choice(others if others and rng.random() < 0.5 else absent)
        form = _form(label, {**things[i].values, label: ""}, rng)
    else:
        label = rng.choice(sorted(things[i].values))
        form = _form(label, {}, rng)
        name = rng.choice([n for n in names if all(n not in t.name and t.name not in n for t in things)])
    question = form.format(x=rng.choice(("the ", "")) + name if len(name.split()) > 1 else name)
    answers = (passage.text[slice(*span)],) if span else ()
    return QuestionRow(question, passage.id, answers, (span,) if span else ())


def _answerable(label: str, present: Mapping[str, str]) -> bool:
    return label in present or any(label in some and some & set(present) for some in _ALIKE)


def _form(label: str, present: Mapping[str, str], rng: random.Random) -> str:
    """Choose a question for a label that is no question for another one that is present."""
    others = {form for la in present if la != label for form in LABELS[la][1].split(";")}
    forms = [form for form in LABELS[label][1].split(";") if form not in others]
    if not forms or rng.random() < _PLAIN:
        return rng.choice((f"What is the {label.lower()} of {{x}}?", f"{{x}} {label.lower()}", f"{label} of {{x}}?"))
    return rng.choice(forms)
