"""Text of the advice on what would decide a comparison."""

from __future__ import annotations

from collections.abc import Iterator

from testbed.analysis.adjusted import AdjustedData
from testbed.analysis.advice import AdviceData, PlanData
from testbed.analysis.report import ComparisonData
from testbed.reports.figures_text import p_value, ratio_words

# A plan is worth a word when its interval is this much narrower.
WORTH = 0.9
# Above so many pairs nobody measures: the machine has to become quieter.
MOST_PAIRS = 1000


def advice_words(one: ComparisonData, title: str) -> Iterator[str]:
    """A sentence on where the variance lies and what the run knows, one on what would know more."""
    advice = one.advice
    if advice is None:
        return
    now, best, quickest = advice.this_run, advice.same_time, advice.for_target
    yield (
        f"{one.a}, {one.b}: {title}: {where_it_lies(advice)}. {rounds_words(now)} know the effect to "
        f"±{now.half_width:.1%} and took {time_words(now.time_s)}."
    )
    plans = []
    if best and best.half_width < WORTH * now.half_width:
        plans.append(f"in the same time {rounds_words(best, now)} would know it to ±{best.half_width:.1%}")
    if quickest is None or quickest.pairs > MOST_PAIRS:
        plans.append(f"the target is out of reach (over {MOST_PAIRS} pairs) until the machine is quieter")
    else:
        plans.append(
            f"{rounds_words(quickest, now)} would know it to ±{quickest.half_width:.1%} "
            f"in {time_words(quickest.time_s)}"
        )
    words = "; ".join(plans)
    yield f"{words[0].upper()}{words[1:]}."


COVARIATES = {"noise.foreign": "the CPU time of other processes", "noise.steal": "steal"}


def adjusted_words(one: ComparisonData, adjusted: AdjustedData, title: str) -> str:
    """The effect between rounds that were disturbed alike, which decides where it is given."""
    doubt = "" if adjusted.balanced else ", which differs between the states: they may cause it themselves"
    return (
        f"{one.a}, {one.b}: {title}: adjusted for {COVARIATES[adjusted.covariate]}{doubt}: "
        f"{ratio_words(adjusted.effect, adjusted.ci95)}, p {p_value(adjusted.p_holm)}, {adjusted.verdict}. "
        "It explains much of the variance, so this verdict counts, not the plain one in the table."
    )


def where_it_lies(advice: AdviceData) -> str:
    """`most of the variance is between rounds (drift 9%, between rounds 70%, within rounds 21%)`."""
    shares = {"drift": advice.drift, "between rounds": advice.between}
    if advice.within is None:  # not known apart
        shares = {"drift": advice.drift, "between or within rounds": advice.between}
    else:
        shares["within rounds"] = advice.within
    most = max(shares, key=lambda name: shares[name])
    place = "drift, which pairs cancel" if most == "drift" else most
    shares_text = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    return f"most of the variance is {place} ({shares_text})"


def rounds_words(plan: PlanData, now: PlanData | None = None) -> str:
    """`20 pairs of 1 s`; what it changes about the warm-up of the run `now` is said."""
    without = " without warm-up" if now and now.omit and not plan.omit else ""
    return f"{plan.pairs} pairs of {plan.measured_s:g} s{without}"


def time_words(seconds: float) -> str:
    """`45 s`, `12 min`, `3.5 h`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
