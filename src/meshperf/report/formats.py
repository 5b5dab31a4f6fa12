"""Numbers as they are printed: three significant digits, an interval to the decimals of its estimate.

Milliseconds and millicores exist only here; everything else in the package is in seconds, cores and bytes.
"""

from __future__ import annotations

import math

NOT_ESTIMABLE = "n.e."
DASH = "–"
SMALLEST_P = 1e-4
"""p-values below this are printed as smaller than it: their digits depend on tails that nobody has checked."""


def is_number(value: object) -> bool:
    """Tell whether ``value`` is a finite number."""
    try:
        return value is not None and math.isfinite(float(value))  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def decimals(value: float, digits: int = 3) -> int:
    """Return how many decimals show ``digits`` significant digits of ``value`` (none for 100 and more at three)."""
    if not is_number(value) or value == 0:
        return digits - 1
    return max(0, digits - 1 - math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))))


def fixed(value: object, places: int) -> str:
    """Return ``value`` with ``places`` decimals, thousands set apart, a true minus sign; a dash if it is no number."""
    if not is_number(value):
        return DASH
    number = float(value)  # type: ignore[arg-type]
    text = f"{abs(number):,.{places}f}".replace(",", "\N{NARROW NO-BREAK SPACE}")
    negative = number < 0 and any(digit in "123456789" for digit in text)
    return f"\N{MINUS SIGN}{text}" if negative else text


def significant(value: object, digits: int = 3) -> str:
    """Return ``value`` to ``digits`` significant digits without an exponent; a dash if it is no number."""
    return fixed(value, decimals(float(value), digits)) if is_number(value) else DASH  # type: ignore[arg-type]


def interval(low: object, high: object, places: int) -> str:
    """Return ``[low, high]`` with ``places`` decimals, or an empty string where there is no interval."""
    if not (is_number(low) and is_number(high)):
        return ""
    return f"[{fixed(low, places)}, {fixed(high, places)}]"


def interval_decimals(value: float, low: float, high: float) -> int:
    """Return the decimals of an estimate with an interval: three digits of it, but two of half the interval's width."""
    half = (high - low) / 2
    return min(decimals(value), decimals(half, 2)) if half > 0 else decimals(value)


def with_interval(value: object, low: object, high: object, *, scale: float = 1.0, sign: bool = False) -> str:
    """Return ``value [low, high]`` after multiplying by ``scale``; without the interval where there is none.

    Parameters
    ----------
    value, low, high : float
        Estimate and limits, in the unit of the frame.
    scale : float
        What turns that unit into the printed one (1000 from seconds to milliseconds).
    sign : bool
        Print a plus before a positive estimate: for differences.
    """
    if not is_number(value):
        return DASH
    scaled = float(value) * scale  # type: ignore[arg-type]
    if not (is_number(low) and is_number(high)):
        text = significant(scaled)
        return f"+{text}" if sign and scaled > 0 else text
    low, high = float(low) * scale, float(high) * scale  # type: ignore[arg-type]
    places = interval_decimals(scaled, low, high)
    text = fixed(scaled, places)
    return f"{'+' if sign and scaled > 0 else ''}{text} {interval(low, high, places)}"


def milliseconds(value_s: object) -> str:
    """Return seconds as milliseconds to three significant digits, without the unit."""
    return significant(float(value_s) * 1e3) if is_number(value_s) else DASH  # type: ignore[arg-type]


def millicores(value_cores: object) -> str:
    """Return cores as millicores to three significant digits, without the unit."""
    return significant(float(value_cores) * 1e3) if is_number(value_cores) else DASH  # type: ignore[arg-type]


def mebibytes(value_bytes: object) -> str:
    """Return bytes as MiB to three significant digits, without the unit."""
    return significant(float(value_bytes) / 2**20) if is_number(value_bytes) else DASH  # type: ignore[arg-type]


def span(low: object, high: object) -> str:
    """Return ``low to high`` to three significant digits, or one number where both print the same."""
    texts = [significant(low), significant(high)]
    return " to ".join(dict.fromkeys(texts))


def percent(ratio: object, digits: int = 2) -> str:
    """Return a ratio as a percentage with its sign, ``0 %`` for none."""
    if not is_number(ratio):
        return DASH
    if float(ratio) == 0:  # type: ignore[arg-type]
        return "0 %"
    return f"{significant(float(ratio) * 100, digits)} %"  # type: ignore[arg-type]


def level(share: float) -> str:
    """Return a share that somebody chose as a percentage, with the digits it has: ``5 %``, ``99.9 %``."""
    return f"{100 * share:g} %"


def p_value(p: object) -> str:
    """Return a p-value to two significant digits, ``<0.0001`` where it is smaller, never 0."""
    if not is_number(p):
        return DASH
    return significant(p, 2) if float(p) >= SMALLEST_P else f"<{SMALLEST_P:.4f}"  # type: ignore[arg-type]


def count(value: object) -> str:
    """Return a whole number with its thousands set apart."""
    return fixed(value, 0)


def duration(seconds: object) -> str:
    """Return a time span in the unit a reader would use: seconds, minutes, or hours."""
    if not is_number(seconds):
        return DASH
    value = float(seconds)  # type: ignore[arg-type]
    unit_s, unit = (1, "s") if value < 120 else (60, "min") if value < 7200 else (3600, "h")
    amount = value / unit_s
    return f"{fixed(amount, 0) if amount == round(amount) else significant(amount, 2)} {unit}"


def listing(items: list[str]) -> str:
    """Join words as a sentence does: ``a``, ``a and b``, ``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")
