"""An MJCF file compiled by MuJoCo, also where files that it names are missing.

MuJoCo refuses a file if any mesh or image is missing. For the dynamics they matter only where a body has no <inertial>:
its inertia is computed from its shapes. So shapes whose files are missing are removed, and a body that needed them has
an unknown inertia; it then carries a sphere in their place, because MuJoCo wants mass in every body that moves.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from steelyard._arrays import Array
from steelyard.errors import MissingExtraError, RobotError, few
from steelyard.findings import Finding
from steelyard.model.loops import Attachment
from steelyard.model.parameters import skew
from steelyard.model.pose import Pose

# MuJoCo's words for a file that it cannot find.
_CANNOT_OPEN = "opening file"
# The sphere of a body of unknown inertia [m, kg].
_RADIUS, _MASS = 0.05, 1.0


@dataclass(frozen=True)
class CompiledModel:
    """MuJoCo, and its model of a file.

    missing   files that were not found, as the MJCF names them; shapes and textures made of them were removed
    unknown   numbers of the bodies whose inertia would come from such a shape, and of the bodies that carry them
    """

    mujoco: ModuleType
    model: Any
    missing: tuple[str, ...] = ()
    unknown: frozenset[int] = frozenset()

    def findings(self, names: list[str]) -> tuple[Finding, ...]:
        """What was left out; `names` are the names of the bodies."""
        if not self.missing:
            return ()
        message = f"{len(self.missing)} mesh or image files were not found ({few(self.missing, 3)}): left out"
        if not self.unknown:
            fix = "nothing to do: every moving body states its inertia"
            return (Finding("mesh-missing", "info", f"{message}; no inertia depends on them", "", fix),)
        bodies = few(names[b] for b in sorted(self.unknown))
        return (Finding("mesh-missing", "warning", f"{message}; the inertia of {bodies} is unknown without them"),)


def compiled(path: Path, *, shapes: bool = False) -> CompiledModel:
    """The model of a file; with `shapes`, files that are missing are an error."""

    def parse(mujoco: ModuleType) -> Any:
        if path.suffix.lower() == ".xml":
            return mujoco.MjSpec.from_file(str(path))
        # MuJoCo chooses the reader of a specification by the suffix
        return _of_text(mujoco, path.read_text("utf-8-sig"), path)

    return _compiled(lambda mujoco: mujoco.MjModel.from_xml_path(str(path)), parse, path, shapes=shapes)


def compiled_text(text: str, path: Path, *, fused: bool = True) -> CompiledModel:
    """The model of a text without includes; other files are looked for relative to `path`.

    With `fused` false, bodies that <compiler fusestatic> would merge into others stay separate bodies.
    """

    def parse(mujoco: ModuleType) -> Any:
        spec = _of_text(mujoco, text, path)
        spec.compiler.fusestatic = fused and spec.compiler.fusestatic
        return spec

    return _compiled(lambda mujoco: parse(mujoco).compile(), parse, path)


def _of_text(mujoco: ModuleType, text: str, path: Path) -> Any:
    spec = mujoco.MjSpec.from_string(text)
    spec.modelfiledir = str(path.parent.resolve())
    return spec


def _compiled(
    compile_whole: Callable[[ModuleType], Any],
    parse: Callable[[ModuleType], Any],
    path: Path,
    *,
    shapes: bool = False,
) -> CompiledModel:
    mujoco = _mujoco()
    with _quiet(mujoco):
        try:
            return CompiledModel(mujoco, compile_whole(mujoco))
        except (ValueError, mujoco.FatalError) as problem:
            whole = problem
        said = " ".join(str(whole).split())
        missing: tuple[str, ...] = ()
        try:
            spec = None if shapes or _CANNOT_OPEN not in said else parse(mujoco)
            missing = () if spec is None else tuple(_removed(spec, path))
            if spec is None or not missing:
                raise RobotError(f"MuJoCo cannot compile '{path}': {said}") from whole
            bodies = _replaced(mujoco, spec)
            model = spec.compile()
        except (ValueError, mujoco.FatalError) as problem:
            if not missing:  # the text itself, or a file that it includes, cannot be read
                raise RobotError(f"MuJoCo cannot compile '{path}': {said}") from whole
            raise RobotError(
                f"MuJoCo cannot compile '{path}' without the {len(missing)} mesh or image files that were not found "
                f"({few(missing, 3)}): {' '.join(str(problem).split())}. Put the files where the MJCF names them."
            ) from problem
    own = [int(body.id) for body in bodies if model.body_weldid[body.id]]  # others do not move
    return CompiledModel(mujoco, model, missing, frozenset([*own, *(int(model.body_weldid[b]) for b in own)]))


def _mujoco() -> ModuleType:
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("mujoco-core", "mjcf", "Reading an MJCF robot") from None
    return mujoco


@contextmanager
def _quiet(mujoco: ModuleType) -> Iterator[None]:
    """Keep MuJoCo from printing and from leaving a log file in the user's folder; its results are checked here."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


# --- Files that are missing -------------------------------------------------------------------------------------------


def _removed(spec: Any, path: Path) -> Iterator[str]:
    """Remove meshes, height fields, skins and textures whose files are missing; yields the files."""
    folder = Path(spec.modelfiledir or path.parent)

    def absent(file: str, place: str) -> bool:
        name = Path(file).name if spec.strippath else file
        return bool(file) and not os.path.isfile(folder / place / name)

    for kind in (spec.meshes, spec.hfields, spec.skins):
        for asset in kind:
            if absent(asset.file, spec.meshdir):
                yield asset.file
                # a name, so that its geoms are still found when it is gone
                asset.name = asset.name or Path(asset.file).stem
                spec.delete(asset)
    for texture in spec.textures:
        lost = [file for file in (texture.file, *texture.cubefiles) if absent(file, spec.texturedir)]
        yield from lost
        if lost:
            for material in spec.materials:
                material.textures = ["" if name == texture.name else name for name in material.textures]
            spec.delete(texture)


def _replaced(mujoco: ModuleType, spec: Any) -> list[Any]:
    """Remove the geoms of removed meshes and height fields, and give a sphere to each body whose inertia would come
    from one; returns these bodies.

    Contact pairs, sensors and tuples may name a geom that is gone, and have no part in the dynamics: they go too.
    """
    for one in (*spec.pairs, *spec.sensors, *spec.tuples):
        spec.delete(one)
    left = {mesh.name or Path(mesh.file).stem for mesh in spec.meshes}, {field.name for field in spec.hfields}
    first, last = spec.compiler.inertiagrouprange
    from_geoms = spec.compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE
    bodies = []
    for body in spec.bodies:
        gone = [g for g in body.geoms if g.meshname and g.meshname not in left[0]]
        gone += [g for g in body.geoms if g.hfieldname and g.hfieldname not in left[1]]
        heavy = [g for g in gone if g.mass != 0.0 and (g.density != 0.0 or g.mass > 0.0) and first <= g.group <= last]
        if heavy and (from_geoms or not body.explicitinertial) and body.name != "world":
            body.add_geom(
                type=mujoco.mjtGeom.mjGEOM_SPHERE, size=[_RADIUS, 0, 0], mass=_MASS, group=first,
                contype=0, conaffinity=0,
            )  # fmt: skip
            bodies.append(body)
        for geom in gone:
            spec.delete(geom)
    scaled = spec.compiler.settotalmass > 0.0  # then the mass of every body depends on that of the others
    return list(spec.bodies) if bodies and scaled else bodies


# --- Names and frames of the compiled model ---------------------------------------------------------------------------


def name_of(mujoco: ModuleType, model: Any, kind: str, number: int) -> str:
    """The name in the file, or kind and number where it gives none."""
    try:
        given = mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind}"), number)
    except UnicodeDecodeError:
        raise RobotError(f"The name of {kind.lower()} number {number} is not UTF-8. Save the file as UTF-8.") from None
    return given or f"{kind.lower()}{number}"


def body_names(mujoco: ModuleType, model: Any) -> list[str]:
    return [name_of(mujoco, model, "BODY", b) for b in range(model.nbody)]


def kind_of(mujoco: ModuleType, family: str, number: int) -> str:
    """Name of a constant of MuJoCo as the file writes it: ("Joint", 3) → "hinge"."""
    return str(getattr(mujoco, f"mjt{family}")(int(number)).name).partition("_")[2].lower()


def switched_off(mujoco: ModuleType, model: Any, *what: str) -> bool:
    """Whether the model's options disable one of these effects."""
    return any(model.opt.disableflags & getattr(mujoco.mjtDisableBit, f"mjDSBL_{one}", 0) for one in what)


class Frames:
    """Frames of the compiled model on the moving bodies that carry them, or on the world.

    Bodies without joints are attached to the moving body before them, at its reference position.
    """

    def __init__(self, mujoco: ModuleType, model: Any) -> None:
        self.model, self.names = model, body_names(mujoco, model)
        self.data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, self.data)

    def of_body(self, body: int, local: Pose) -> Attachment:
        """A frame relative to a body."""
        return self._carried(body, self._world("x", body) @ local)

    def of_site(self, site: int) -> Attachment:
        return self._carried(int(self.model.site_bodyid[site]), self._world("site_x", site))

    def of_geom(self, geom: int) -> Attachment:
        return self._carried(int(self.model.geom_bodyid[geom]), self._world("geom_x", geom))

    def _carried(self, body: int, world: Pose) -> Attachment:
        carrier = int(self.model.body_weldid[body])
        return Attachment(self.names[carrier], self._world("x", carrier).inverse() @ world)

    def _world(self, prefix: str, number: int) -> Pose:
        rotation, position = (getattr(self.data, prefix + part)[number] for part in ("mat", "pos"))
        return Pose(np.array(rotation, float).reshape(3, 3), np.array(position, float))


def rotation_of(quaternion: Array) -> Array:
    """Rotation matrix of a quaternion (w, x, y, z)."""
    w, x, y, z = np.asarray(quaternion, float) / np.linalg.norm(quaternion)
    k = skew(np.array([x, y, z]))
    return np.eye(3) + 2.0 * w * k + 2.0 * k @ k
