"""Finding codes about error bars that do not hold, and what a wrong model or different runs do to them."""

from __future__ import annotations

from steelyard.findings.finding_code import FindingCode

STATEMENT_CODES = (
    FindingCode(
        "repeating-residual",
        "fit",
        ("info",),
        ("estimators",),
        "the motion repeats itself and so does part of the residual, an error of the model: σ is wider than that of "
        "blocks of time",
        "record a motion that does not repeat itself, or add the term that the residual shows",
        "error-bars.md",
    ),
    FindingCode(
        "friction-misfit",
        "fit",
        ("warning",),
        ("validation",),
        "the residual against the motion of a joint depends on speed or load: its friction law is wrong, and other "
        "parameters absorb a part of it",
        'use the default terms (`terms = "default"`), or add `stribeck` or `load`; `select = true` tries them',
        "friction.md",
    ),
    FindingCode(
        "friction-untested",
        "fit",
        ("info",),
        ("validation",),
        "less than 10 s of motion: a wrong friction law cannot be distinguished from noise",
        "record longer",
        "friction.md",
    ),
    FindingCode(
        "runs-differ",
        "fit",
        ("info", "warning"),
        ("validation",),
        "the runs of a fit differ in these parameters by more than noise, e.g. friction on different days (with ten "
        "runs or more the error bars contain it)",
        "fit runs of one day and temperature together, or record ten runs or more",
        "error-bars.md",
    ),
    FindingCode(
        "essential-biased",
        "fit",
        ("warning",),
        ("estimators",),
        "estimator `essential`: cancelled parameters are certainly not zero, or the residual rises by more than 3 %: "
        "the others absorb their effect",
        'raise `ratio`, set `stop = "f-test"`, or use `wls`',
        "estimators/essential.md",
    ),
)
