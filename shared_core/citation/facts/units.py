"""Units of measurement and their conversions."""

from __future__ import annotations

from typing import NamedTuple


class Unit(NamedTuple):
    """A unit: a value in it is ``value * factor + offset`` in the base unit of its dimension.

    >>> UNITS["km"].base(3)
    3000.0
    """

    dimension: str
    factor: float
    offset: float = 0.0

    def base(self, value: float) -> float:
        """Convert to the base unit of the dimension."""
        return value * self.factor + self.offset


_TABLE = {
    "length": {
        0.001: "mm millimetre millimetres millimeter millimeters",
        0.01: "cm centimetre centimetres centimeter centimeters",
        1.0: "m metre metres meter meters",
        1000.0: "km kilometre kilometres kilometer kilometers kilometro kilometros chilometri",
        0.0254: "inch inches",
        0.3048: "ft foot feet",
        0.9144: "yd yard yards",
        1609.344: "mi mile miles",
        1852.0: "nmi",
        1.8288: "fathom fathoms",
    },
    "mass": {
        1e-06: "mg milligram milligrams",
        0.001: "g gram grams gramme grammes",
        1.0: "kg kilo kilos kilogram kilograms kilogramme kilogrammes",
        1000.0: "tonne tonnes",
        907.18: "ton tons",
        0.45359: "lb lbs pound pounds",
        0.02835: "oz ounce ounces",
    },
    "time": {
        0.001: "ms millisecond milliseconds",
        1.0: "s sec secs second seconds sekunde sekunden segundo segundos",
        60.0: "min mins minute minutes minuten minuto minutos minuti",
        3600.0: "h hr hrs hour hours stunde stunden heure heures hora horas ore",
        86400.0: "day days tag tage tagen jour jours dia dias giorno giorni",
        604800.0: "week weeks woche wochen semaine semaines semana semanas",
        2629800.0: "month months monat monate monaten mois mes meses mese mesi",
        31557600.0: "year years jahr jahre jahren an ans ano anos anni",
        315576000.0: "decade decades",
        3155760000.0: "century centuries jahrhundert jahrhunderte siecle siecles siglo siglos",
    },
    "area": {
        1.0: "m2 m² sqm",
        10000.0: "ha hectare hectares",
        1000000.0: "km2 km²",
        4046.86: "acre acres",
    },
    "volume": {
        1.0: "l litre litres liter liters",
        0.001: "ml millilitre millilitres milliliter milliliters",
        3.7854: "gallon gallons",
    },
    "speed": {
        1 / 3.6: "km/h kph",
        0.44704: "mph",
        0.514444: "knot knots kn",
    },
    "percent": {
        1.0: "% percent percentage prozent pct",
    },
    "points": {
        1.0: "pp point points",
    },
    "dollar": {
        1.0: "$ usd dollar dollars",
    },
    "euro": {
        1.0: "€ eur euro euros",
    },
    "sterling": {
        1.0: "£ gbp",
    },
    "yen": {
        1.0: "¥ jpy yen",
    },
    "power": {
        1.0: "w watt watts",
        1000.0: "kw kilowatt kilowatts",
        1000000.0: "mw megawatt megawatts",
    },
    "data": {
        1.0: "byte bytes",
        1000.0: "kb kilobyte kilobytes kib",
        1000000.0: "mb megabyte megabytes mib",
        1000000000.0: "gb gigabyte gigabytes gib",
    },
}
UNITS = {
    name: Unit(dimension, factor)
    for dimension, rows in _TABLE.items()
    for factor, names in rows.items()
    for name in names.split()
} | {
    "°c": Unit("temperature", 1.0), "celsius": Unit("temperature", 1.0),
    "°f": Unit("temperature", 5 / 9, -160 / 9), "fahrenheit": Unit("temperature", 5 / 9, -160 / 9),
    "kelvin": Unit("temperature", 1.0, -273.15),
}  # fmt: skip
"""Units by their names and symbols, folded."""
