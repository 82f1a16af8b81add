"""The commands: name, group, sentence, example and function of each, written once. Functions are imported when
called."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

import typer
from typer.core import TyperCommand

from steelyard.errors import SteelyardError, choices

PLUG_INS = "Plug-ins"
ENTRY_POINTS = "steelyard.commands"


@dataclass(frozen=True)
class Command:
    """A command of the command line.

    `function` is the function that runs it, or where it is ("package.module:function"), so that `steelyard --help` need
    not import it. Typer reads arguments and options from its signature. It returns None or an exit code. Its docstring,
    if there is one, follows `sentence` in `steelyard NAME --help`. `group` is the heading that `steelyard --help` lists
    it under, `judged` says when it ends with exit code 1. `headings` gives headings to options: names by heading; the
    others are listed under "Options".
    """

    name: str
    function: Callable[..., Any] | str
    sentence: str
    example: str = ""
    group: str = PLUG_INS
    judged: str = ""
    headings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def listed(self) -> TyperCommand:
        """The command without its options, as `steelyard --help` lists it."""
        return TyperCommand(self.name, help=self.sentence, rich_help_panel=self.group)

    def load(self) -> TyperCommand:
        """The command with its options; imports its function."""
        function = self.function if callable(self.function) else self._imported(self.function)
        details = " ".join((function.__doc__ or "").split())
        ends = [f"Example: `{self.example}`"] if self.example else []
        ends += [f"Exit code 1: {self.judged}."] if self.judged else []
        single = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        single.command(self.name, help=f"{self.sentence}\n\n{details}".strip(), epilog="\n\n".join(ends))(function)
        command = typer.main.get_command(single)
        assert isinstance(command, TyperCommand)
        for heading, names in self.headings.items():
            for option in command.params:
                if option.name in names:
                    option.rich_help_panel = heading  # type: ignore[attr-defined]
        return command

    def _imported(self, place: str) -> Callable[..., Any]:
        module, _, name = place.partition(":")
        try:
            found = getattr(import_module(module), name)
        except (Exception, SystemExit) as error:  # a module of the user may raise anything
            if module.startswith("steelyard."):
                raise
            kind = "" if isinstance(error, ImportError | AttributeError) else f"{type(error).__name__}: "
            raise SteelyardError(f"Command '{self.name}' cannot be loaded from '{place}': {kind}{error}.") from None
        if not callable(found):
            raise SteelyardError(f"Command '{self.name}' cannot be loaded from '{place}': {found!r} is not a function.")
        return found


def _built_in() -> tuple[Command, ...]:
    """In the order of `steelyard --help`."""

    def one(
        group: str, place: str, name: str, example: str, sentence: str, judged: str = "", **headings: str
    ) -> Command:
        place, example = f"steelyard.cli.{place}", f"steelyard {name} {example}".strip()
        options = {heading: tuple(names.split()) for heading, names in headings.items()}
        return Command(name, place, sentence, example, group, judged, options)

    return (
        one("Start", "identify:demo", "demo", "tx40 --out demo",
            "Simulate a robot, identify it from the simulated log, and compare with the true parameters."),
        one("Start", "init:init", "init", "arm.urdf monday.csv",
            "Guess the columns, units and signs of logs, and write a commented project file."),
        one("Start", "check:check_project", "check", "project.toml",
            "Check logs and channel map for wrong units, signs, columns, ratios, delays; constant or repeated signals.",
            "a fault was found"),
        one("Start", "robots:robots", "robots", "",
            "List the built-in robots."),
        one("Start", "robots:params", "params", "tx40 --terms rotor,viscous,coulomb",
            "List the standard and base parameters of a robot."),
        one("Start", "identify:estimators", "estimators", "",
            "List the estimators."),
        one("Start", "start.simulate:simulate_command", "simulate", "arm.urdf --out log.csv",
            "Simulate a robot under a controller and write its log, for those without a robot."),
        one("Start", "start.doctor:doctor", "doctor", "",
            "Check this machine: compiled kernels, optional libraries, write access, speed.",
            "something does not work"),
        one("Start", "identify:warm", "warm", "",
            "Compile the numerical kernels once; later runs load them from the cache."),
        one("Identify", "identify:identify", "identify", "project.toml --estimator consistent",
            "Identify a robot from its project file; write result.json and report.html."),
        one("Identify", "watch:watch_command", "watch", "project.toml --follow live.csv --out watched",
            "Identify while a log grows: parameters with error bars, and alarms on changes.",
            Log="follow until_idle refresh", Change="forgetting memory learn false_alarms", Output="show out as_json"),
        one("Identify", "payload:payload_command", "payload", "project-run loaded.csv --free offset",
            "Identify an unknown payload with an identified robot: mass, centre of mass, inertia."),
        one("Judge", "validation:validate_logs", "validate", "project-run other.csv --fail-above 0.05",
            "Score a result on logs that were not used in the fit.",
            "the relative error is above `--fail-above`"),
        one("Judge", "validation:crossvalidate", "crossvalidate", "project.toml --folds runs",
            "Score every row of a project with parameters fitted without it."),
        one("Judge", "validation:compare_results", "compare", "monday-run friday-run",
            "Compare results parameter by parameter; for two, test whether the robot has changed.",
            "the robot has changed"),
        one("Judge", "validation:twin_command", "twin", "project-run --runs 50",
            "Repeat the experiment in simulation with known truth: bias, coverage, smallest detectable change."),
        one("Judge", "consistency:consistency", "consistency", "arm.urdf",
            "Test whether the inertias of a robot or of a result are physically possible.",
            "they are not possible, for a result by more than 3 σ"),
        one("Judge", "validation:delays", "delays", "project.toml",
            "Estimate the delay of effort behind position, per joint and log."),
        one("Design", "excite:excite_command", "excite", "arm.urdf --limits cell.toml --out motion.csv",
            "Design a motion that identifies the parameters best, within limits that hold at all times.",
            Motion="limits duration harmonics family start load",
            Goal="criterion parameters target given terms noise row_rate",
            Search="seed starts iterations",
            Output="out rate preview as_json"),
        one("Use", "prediction:predict_command", "predict", "project-run motion.csv --out torque.csv",
            "Predict the torque of a motion, with a 95 % band per joint, as CSV or Parquet."),
        one("Study", "study.paper:paper_command", "paper", "p2 --quick --out p2",
            "Repeat the experiment of a paper: its tables next to ours, its figures.",
            "a claim about the paper does not hold"),
        one("Study", "study.adapt:adapt_command", "adapt", "tx40 --motions 40 --out adapted",
            "Simulate a robot that learns its parameters while it moves under computed torque."),
        one("Study", "study.control:control_command", "control", "project-run other.csv --out control",
            "Simulate control laws with the identified model on a motion: tracking errors."),
        one("Use", "export:export_command", "export", "project-run --to urdf --source arm.urdf",
            "Write the identified model as URDF, MJCF, SDF, C, Python, CasADi or a LaTeX table."),
        one("Use", "identify:report_again", "report", "project-run",
            "Write the report of a result again, from its result.json and logs."),
    )  # fmt: skip


COMMANDS: dict[str, Command] = {command.name: command for command in _built_in()}
_BUILT_IN = frozenset(COMMANDS)


def register(command: Command) -> Command:
    """Make a command known to `steelyard`, for a program that calls `steelyard.cli.main`. Returns the command.

    An installed package need not call this: its entry points of the group "steelyard.commands" are commands. A name may
    be registered again, which replaces the command, but not the name of a built-in command.
    """
    _check_contract(command)
    if command.name in _BUILT_IN:
        raise SteelyardError(f"Command '{command.name}' is built in: give yours another name.")
    COMMANDS[command.name] = command
    return command


def unregister(name: str) -> None:
    """Forget a command that was registered."""
    if name in _BUILT_IN:
        raise SteelyardError(f"Command '{name}' is built in and cannot be removed.")
    if name not in COMMANDS:
        raise SteelyardError(choices("command", name, COMMANDS))
    del COMMANDS[name]


def all_commands() -> dict[str, Command]:
    """Built-in and registered commands, then those of installed packages; a name that is taken is not replaced."""
    return {**COMMANDS, **{name: command for name, command in _plug_ins().items() if name not in COMMANDS}}


def is_plug_in(name: str) -> bool:
    """True for a command that is registered or of an installed package."""
    return name not in _BUILT_IN and name in all_commands()


@cache
def _plug_ins() -> dict[str, Command]:
    """The commands of installed packages. Only their metadata is read: a package is imported when it is called."""
    return {
        point.name: Command(
            point.name, point.value, f"Command of the package '{point.dist.name if point.dist else '?'}'."
        )
        for point in entry_points(group=ENTRY_POINTS)
    }


def _check_contract(command: object) -> None:
    """Refuse an object that is not a valid command, and say what is wrong."""
    if not isinstance(command, Command):
        raise SteelyardError(f"{command!r} cannot be registered: make it a Command(name, function, sentence).")
    who = f"Command '{command.name}' cannot be registered"
    if not (isinstance(command.name, str) and re.fullmatch(r"[a-z][a-z0-9-]*", command.name)):
        raise SteelyardError(f"{who}: `name` must be one word of lower-case letters, digits and '-'.")
    if not (callable(command.function) or re.fullmatch(r"[\w.]+:\w+", str(command.function))):
        raise SteelyardError(f"{who}: `function` must be a function or 'package.module:function'.")
    if not (isinstance(command.sentence, str) and command.sentence.strip()):
        raise SteelyardError(f"{who}: `sentence` must say what it does.")
