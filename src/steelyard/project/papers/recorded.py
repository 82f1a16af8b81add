"""The recordings that a paper is repeated on: project files in a folder of the user's."""

from __future__ import annotations

from steelyard.errors import ProjectError
from steelyard.project.papers.page.paper_page import PaperRequest
from steelyard.project.project import Project, read_project
from steelyard.regression.problem import Problem


def recorded(request: PaperRequest, wanted: str) -> tuple[Project, Problem]:
    """The project `wanted` in the folder of the request, or the only one there, and the problem of its runs."""
    project = project_in(request, wanted)
    model = project.model()
    return project, project.problem(model, project.samples(model.robot, "identify", request.progress))


def project_in(request: PaperRequest, wanted: str) -> Project:
    """The project file of that name in the folder; another name is taken if it is the only project file there."""
    folder = request.data
    if folder is None or not folder.is_dir():
        raise ProjectError(f"--data '{folder}' is not a folder: name one that holds the project file of a recording.")
    files = sorted(folder.glob("*.toml"))
    if (named := folder / wanted) in files:
        return read_project(named)
    if len(files) != 1:
        held = ", ".join(file.name for file in files) or "none"
        raise ProjectError(
            f"--data '{folder}' has no project file '{wanted}' (project files there: {held}). Copy yours there under "
            "that name, or name a folder with one project file."
        )
    return read_project(files[0])
