"""A small result with its predictions, and a page as a reader sees it."""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser

import numpy as np
from plotly.offline import get_plotlyjs

from steelyard.formats.robots import read_robot
from steelyard.identification.identify import identify
from steelyard.identification.prediction import Prediction, predict
from steelyard.identification.result import Identification
from steelyard.model.model import Model
from steelyard.model.robot import Robot
from steelyard.model.terms import named_terms
from steelyard.regression.problem import Problem
from steelyard.signals.samples import Samples

HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>\"'&")


def identified(robot: Robot) -> tuple[Identification, Prediction]:
    """A planar arm simulated with friction and noise, identified for real."""
    model = Model(robot, named_terms(["viscous", "coulomb", "offset"]))
    rate, count = 100.0, 1200
    t = np.arange(count) / rate
    w = 2 * np.pi * np.array([[0.31], [0.47]])
    q, v, a = np.sin(w * t), w * np.cos(w * t), -(w**2) * np.sin(w * t)
    theta = np.random.default_rng(3).uniform(0.5, 2.0, len(model.layout))
    effort = model.torque(q, v, a, theta) + 0.1 * np.random.default_rng(4).standard_normal(q.shape)
    run = Samples.from_arrays("sines", robot.joint_names, rate, q, v, a, effort)
    problem = Problem(model, [run], decimate=2)
    result = identify(problem)
    return result, predict(result, problem, run)


@cache
def example() -> tuple[Identification, Prediction]:
    return identified(read_robot("planar2r"))


@cache
def model_of_example() -> Model:
    """The model of `example`."""
    return Model(read_robot("planar2r"), named_terms(["viscous", "coulomb", "offset"]))


class Outline(HTMLParser):
    """Tags with their attributes, the texts of scripts, and the text a reader sees."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.seen: list[str] = []
        self._inside = ""
        self.feed(source)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag if tag in ("script", "style") else ""
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif not self._inside:
            self.seen.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.seen).split())


def without_plotly(source: str) -> str:
    return source.replace(get_plotlyjs(), "")
