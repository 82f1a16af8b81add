"""A URDF of two revolute joints and a finger that slides."""

from __future__ import annotations

INERTIAL = (
    '<inertial><origin xyz=".1 .2 .3"/><mass value="2"/>'
    '<inertia ixx=".3" ixy="0" ixz="0" iyy=".4" iyz="0" izz=".5"/></inertial>'
)
ARM = f"""<robot name="arm"><link name="base"/><link name="l1">{INERTIAL}</link><link name="l2">{INERTIAL}</link>
<link name="f1">{INERTIAL}</link>
<joint name="j1" type="revolute"><parent link="base"/><child link="l1"/><axis xyz="0 1 0"/></joint>
<joint name="j2" type="revolute"><parent link="l1"/><child link="l2"/><axis xyz="1 0 0"/><origin xyz="0 0 .4"/></joint>
<joint name="finger" type="prismatic"><parent link="l2"/><child link="f1"/><axis xyz="0 1 0"/>
<limit lower="0.01" upper="0.04"/></joint></robot>"""
